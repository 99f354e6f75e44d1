"""Libraries that only some people use, and how to get one that is missing.

`pip install fairway` brings what simulations, reports and the served API need. The rest comes by extras:
`pip install 'fairway[cost]'`. Where a library of one is missing, the message names the extra.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from fairway.errors import WorldError

# Module → the extra that brings it, and what it is for. pyproject.toml has the same extras.
EXTRAS: dict[str, tuple[str, str]] = {
    "numba": ("placement", "placement policies for shared GPUs and model servers are compiled with Numba"),
    "grpc": ("grpc", "external scalers of KEDA are called with gRPC"),
    "PIL": ("png", "charts as PNG are painted with Pillow"),
    "mcp": ("mcp", "agents are served over the Model Context Protocol with its Python SDK"),
    "polars": ("cost", "bills, cost exports and Parquet files are made with Polars"),
    "ray": ("ray", "futures run on a Ray cluster with Ray's Python client"),
}


def have(module: str) -> bool:
    """Whether it is installed. Nothing is imported."""
    return find_spec(module) is not None


def need(module: str) -> ModuleType:
    """The module. Raises: WorldError where it is not installed, naming the extra that brings it."""
    if not have(module):
        extra, what_for = EXTRAS[module]
        raise WorldError(f"{what_for}, which is not installed here: pip install 'fairway[{extra}]'")
    return import_module(module)
