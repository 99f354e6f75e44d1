"""`fairway`: the list of commands; one is imported when it is called.

`main` finds the command, hands it the rest of the line, and turns what went wrong into a sentence and an exit
code. Importing every command to print the list would take a second; the list is data instead.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec

import typer

from fairway import __version__
from fairway.cli.guardedstreams import guarded_streams
from fairway.errors import BugError, FairwayError, InvalidInput

# name → (module, what it does). A module has a Typer `app`: one command, or a group of them.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": (
        "init_cmd",
        "write a first scenario: from answers, a cloud's region, or a cluster",
    ),
    "examples": ("examples_cmd", "list the examples, copy one"),
    "simulate": ("simulate_cmd", "run a directory of Kubernetes YAML, or a scenario, in virtual time"),
    "report": ("report_cmd", "show what a run did: terminal, HTML, plots"),
    "compare": ("compare_cmd", "put runs side by side, differences that matter first"),
    "cost": ("cost_cmd", "what a run cost, who owes it, budgets, showback, FOCUS export"),
    "plan": ("plan_cmd", "planning in money: spot, reserved capacity, MIG slices, scale to zero"),
    "queue": ("queue_cmd", "Kueue's queues: what waits and why, quota, who borrows from whom"),
    "gpus": ("gpus_cmd", "why has a node no GPUs: NVIDIA's stack checked, command and fix"),
    "explain": ("explain_cmd", "why does it wait, layer by layer, and what would start it"),
    "check": ("check_cmd", "before submission: refused, admitted where, preempting whom, when, at what cost"),
    "doctor": ("doctor_cmd", "the usual symptoms, one by one: signal, evidence, command, fix"),
    "incident": ("incident_cmd", "an incident report: timeline, scope, graphs, factors, remedies, an alert"),
    "forecast": ("forecast_cmd", "when will what is pending start and end; how good such forecasts were"),
    "what-if": (
        "what_if_cmd",
        "what would be different: waits, evictions, fairness, dollars; --search",
    ),
    "mcp": (
        "mcp_cmd",
        "explain, check, forecast and what-if as tools of agents; JSON schemas",
    ),
    "fragmentation": ("fragmentation_cmd", "free GPUs that no pending pod can use, and why"),
    "metrics": ("metrics_cmd", "a run's series under the exporters' names: PromQL, export to Prometheus"),
    "rules": ("rules_cmd", "Prometheus' rules, tried on a run: what fires when, how late"),
    "loadtest": (
        "loadtest_cmd",
        "what requests got and cost, and which autoscaling is the cheapest that will do",
    ),
    "trace": ("trace_cmd", "generate, convert and describe workload traces"),
    "replay": ("replay_cmd", "replay a recorded GPU trace under a placement policy"),
    "slurm": (
        "slurm_cmd",
        "Slurm: a served cluster (up, shell, advance); convert and migrate to Kubernetes",
    ),
    "verify": ("verify_cmd", "check Fairway's decisions against recordings of the real engines"),
    "catalog": ("catalog_cmd", "GPU models, instance types and prices, and what an hour costs"),
    "policy": ("policy_cmd", "admission policies: print the GPU policy set, try policies on manifests"),
    "up": ("up_cmd", "serve the Kubernetes API on this machine, over simulated nodes"),
    "down": ("down_cmd", "stop the server"),
    "status": ("status_cmd", "is a server running, and what time is it there"),
    "scrub": ("scrub_cmd", "is everything a stopped server left on disk as it was written"),
    "clock": ("clock_cmd", "move the served cluster's time: advance, run-until, pause, resume, speed"),
    "monitoring": (
        "monitoring_cmd",
        "exporters, rules and dashboards; how Prometheus scrapes the served cluster",
    ),
    "completion": ("completion_cmd", "print a script that completes commands in bash, zsh or fish"),
    "bench": ("bench_cmd", "measure Fairway against stated references"),
}

MAX_PROBLEMS_SHOWN = 20
INTERRUPTED = 130
BUG_HINT = "this is a bug in Fairway; run again with FAIRWAY_DEBUG=1 to see where"

# Typer carries its own copy of click since 0.20; the base of its usage errors is the one thing needed of it.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def run() -> None:
    """The console script."""
    _write_anywhere()
    code = main(sys.argv[1:])
    # Python looks for cycles once more as it ends: a second after a big run, for nothing.
    gc.freeze()
    sys.exit(code)


def _write_anywhere() -> None:
    """A terminal or pipe whose encoding lacks a character gets `?` for it, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def main(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    with guarded_streams():
        return guarded(lambda: _dispatch(list(arguments)))


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        typer.echo(help_text())
        return 0
    if arguments[0] in ("-V", "--version", "version"):
        typer.echo(f"fairway {__version__}")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        typer.echo(f"fairway: no command {name!r}{_nearest(name)}; see fairway --help", err=True)
        return 2
    module = import_module(f"fairway.cli.{COMMANDS[name][0]}")
    code = module.app(args=arguments[1:], prog_name=f"fairway {name}", standalone_mode=False)
    return code if isinstance(code, int) else 0


def help_text() -> str:
    """The list of commands."""
    width = max(len(name) for name in COMMANDS)
    there = [(n, m, s) for n, (m, s) in COMMANDS.items() if find_spec(f"fairway.cli.{m}")]
    lines = [
        "Fairway: queue, place, share, price and explain GPU work on Kubernetes.",
        "",
        "usage: fairway COMMAND [OPTIONS] …",
        "",
        *(f"  {name:<{width}}  {summary}" for name, _, summary in there),
        "",
        "fairway COMMAND --help says more, with an example. Try: fairway simulate examples/01-two-teams",
        "Exit codes: 0 done, 1 the answer is no, 2 wrong input, 3 the world failed, 4 a bug of ours.",
    ]
    return "\n".join(lines)


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, 1)
    return f", did you mean {close[0]}?" if close else ""


def guarded(action: Callable[[], int]) -> int:
    """The action's exit code; whatever it raises becomes a sentence on stderr and the code that goes with it."""
    try:
        return action()
    except typer.Exit as ended:
        return ended.exit_code
    except (typer.Abort, KeyboardInterrupt):
        _say("interrupted")
        return INTERRUPTED
    except InvalidInput as invalid:
        _say_problems(invalid)
        return invalid.exit_code
    except FairwayError as error:
        _say(str(error))
        if isinstance(error, BugError):
            _say(BUG_HINT)
        return error.exit_code
    except _UsageError as wrong:
        wrong.show()  # type: ignore[attr-defined]
        return 2
    except BrokenPipeError:
        # The reader left (`fairway … | head`): nothing more to say to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as failed:
        _say(f"{failed.filename or 'the system'}: {failed.strerror or failed}")
        return 3
    except Exception as bug:
        if os.environ.get("FAIRWAY_DEBUG"):
            raise
        _say(f"{type(bug).__name__}: {bug}")
        _say(BUG_HINT)
        return 4


def _say(text: str) -> None:
    typer.echo(f"fairway: {text}", err=True)


def _say_problems(invalid: InvalidInput) -> None:
    shown = invalid.problems[:MAX_PROBLEMS_SHOWN]
    for problem in shown:
        typer.echo(str(problem), err=True)
    count = len(invalid.problems)
    if count > len(shown):
        typer.echo(f"… and {count - len(shown)} more", err=True)
    _say(f"{count} problem{'s' if count != 1 else ''} in the input; nothing was run")


if __name__ == "__main__":
    run()
