"""`fairway mcp`: the questions as tools of an agent, over standard input and output."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from fairway.cli.onground import On
from fairway.errors import FairwayError

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def mcp(
    on: On = None,
    is_schemas: Annotated[
        bool, typer.Option("--schemas", help="Print the JSON schema of every answer, and end.")
    ] = False,
) -> None:
    """Serve explain, check, forecast and what-if to agents (Model Context Protocol, stdio). All of them only read.

    Every tool takes `on`, a path as the commands' --on does; without it --on of this command is asked.

    Example: fairway mcp --on examples/06-load-130
    """
    if is_schemas:
        from fairway.answers.schemas import schemas
        from fairway.cli.output import print_json

        print_json(schemas())
        return
    from fairway.extras import need

    need("mcp")
    server_of(None if on is None else str(on)).run("stdio")


def server_of(default: str | None) -> Any:
    """The server with its tools; `default`: the ground of whoever names none."""
    from importlib import import_module

    from fairway import __version__

    types = import_module("mcp.types")
    server = import_module("mcp.server").MCPServer("fairway", version=__version__)
    reads = types.ToolAnnotations(readOnlyHint=True, openWorldHint=False)
    refused = import_module("mcp.server.mcpserver.exceptions").ToolError
    for tool in tools(default):
        server.add_tool(_told(tool, refused), annotations=reads)
    return server


def _told(tool: Callable[..., Any], refused: type[Exception]) -> Callable[..., Any]:
    """The same tool; what is wrong with a question is its answer, as a sentence."""

    @wraps(tool)
    def asked(*args: Any, **kwargs: Any) -> Any:
        try:
            return tool(*args, **kwargs)
        except (FairwayError, ValueError) as wrong:
            raise refused(str(wrong)) from wrong

    return asked


def tools(default: str | None) -> list[Any]:
    """Plain functions: their names, parameters and docstrings are what agents see."""
    from pathlib import Path

    from fairway.answers.api import Ground
    from fairway.cli.onground import ground_on

    known: dict[str, Ground] = {}

    def ground(on: str) -> Ground:
        where = on or default or str(ground_on(None).name)
        if where not in known:
            known[where] = Ground(Path(where))
        return known[where]

    def explain(name: str, on: str = "", namespace: str = "", at: str = "") -> dict[str, Any]:
        """Why does an object (pod/NAME, job/NAME, a queue, node/NAME) wait, and what would start it?

        on: path of a scenario, run, dump, data folder or kubeconfig. at: duration since a simulation's start.
        """
        return ground(on).explain(name, namespace=namespace or None, at=at or None).as_json()

    def check(manifests: str, on: str = "", at: str = "") -> dict[str, Any]:
        """What would become of these manifests (YAML): refused, admitted where, when, at what cost?"""
        return ground(on).check(manifests, at=at or None).as_json()

    def forecast(on: str = "", at: str = "", futures: int = 0, horizon: str = "72h") -> dict[str, Any]:
        """When will everything pending start and end (P10, P50, P90 in seconds from now), and what lies ahead?"""
        count = max(0, min(futures, 1000))
        return ground(on).forecast(at=at or None, futures=count, horizon=horizon, processes=1).as_json()

    def what_if(
        changes: list[str], on: str = "", at: str = "", seeds: int = 3, span: str = "24h"
    ) -> dict[str, Any]:
        """What would be different? The same luck with and without the changes.

        changes: nodes=+4, nodes/PREFIX=-2, quota/QUEUE/FLAVOR/RESOURCE=+8, priority/CLASS=1000, load=2.
        """
        count = max(1, min(seeds, 50))
        return ground(on).what_if(*changes, at=at or None, seeds=count, span=span, processes=1).as_json()

    return [explain, check, forecast, what_if]
