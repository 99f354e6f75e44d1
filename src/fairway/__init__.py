"""Fairway: a GPU platform for AI workloads on Kubernetes. Start with ARCHITECTURE.md."""

from importlib import import_module as _import_module
from typing import Any

from fairway.compiled.loading import activate as _activate

__version__ = "0.1.0"

# Before anything else of the package is imported: from here on its hot modules may come as compiled code.
_activate()


def __getattr__(name: str) -> Any:
    """`from fairway import Ground`: loaded when it is asked for."""
    if name == "Ground":
        return _import_module("fairway.answers.api").Ground
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
