"""`fairway policy`: the GPU policy set, and what policies say to manifests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairway.cli.onground import On

if TYPE_CHECKING:
    from fairway.admission.trial import Trial
    from fairway.kube.manifest import Manifest

app = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)

_Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]
_Mode = Annotated[str, typer.Option("--mode", metavar="warn|enforce", help="Which bindings.")]


@app.callback()
def policy() -> None:
    """Admission policies in CEL: the GPU policy set, and trials on files.

    Example: fairway policy show --mode warn | kubectl apply -f -
    """


@app.command("list")
def list_policies(output: _Output = "table") -> None:
    """List the policies of the GPU policy set.

    Example: fairway policy list
    """
    from fairway.admission import gpupolicies
    from fairway.cli.output import check_output, print_json, print_table
    from fairway.kube.manifest import read_text
    from fairway.kube.objects import annotations_of, name_of

    check_output(output)
    objects = [m.obj for name, text in gpupolicies.policy_texts().items() for m in read_text(text, name)]
    rows = [(name_of(o), annotations_of(o).get(gpupolicies.TITLE, "")) for o in objects]
    if output == "json":
        print_json([{"name": name, "title": title} for name, title in rows])
    else:
        print_table(("NAME", "WHAT IT ASKS"), rows)


@app.command()
def show(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME…]", help="Policies; all if none.")
    ] = None,
    mode: _Mode = "warn",
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="yaml|json", help="How to print.")
    ] = "yaml",
) -> None:
    """Print policies and their bindings, to be piped into kubectl apply.

    `--mode warn` tells users what is wrong and lets them through; `--mode enforce` refuses. The bindings of both
    have the same names: applying one replaces the other.

    Example: fairway policy show --mode warn | kubectl apply -f -
    """
    from fairway.admission import gpupolicies
    from fairway.cli.output import check_output, print_json
    from fairway.errors import UserError
    from fairway.kube.objects import name_of

    check_output(output, ("yaml", "json"))
    _check_mode(mode)
    manifests = gpupolicies.manifests(mode)
    known = sorted({name_of(m.obj) for m in manifests})
    unknown = [n for n in names or () if n not in known]
    if unknown:
        raise UserError(f"no policy {unknown[0]!r} in the set; there are {', '.join(known)}")
    wanted = [m for m in manifests if not names or name_of(m.obj) in names]
    if output == "json":
        print_json({"apiVersion": "v1", "kind": "List", "items": [m.obj for m in wanted]})
    else:
        typer.echo(_yaml(wanted, mode), nl=False)


def _yaml(wanted: list[Manifest], mode: str) -> str:
    """The files as they are, comments included, without the documents that were not asked for."""
    from fairway.admission import gpupolicies
    from fairway.kube.manifest import read_text
    from fairway.kube.objects import name_of

    names = {name_of(m.obj) for m in wanted}
    texts = [*gpupolicies.policy_texts().values(), *gpupolicies.binding_text(mode).split("---\n")]
    kept = [text for text in texts if name_of(read_text(text, "policy")[0].obj) in names]
    return "---\n".join(kept)


@app.command()
def test(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Manifests to be judged.")],
    policies: Annotated[
        list[Path] | None,
        typer.Option("--policies", "-p", metavar="FILE", help="Policy files instead of the GPU policy set."),
    ] = None,
    mode: _Mode = "enforce",
    as_user: Annotated[
        str, typer.Option("--as", metavar="USER", help="Who creates the objects.")
    ] = "kubernetes-admin",
    on: On = None,
    output: _Output = "table",
) -> None:
    """Say what a cluster would do with manifests at its door; exit 1 if one would be refused.

    Quotas, limits, Pod Security levels, classes and accounts in the files count, and so do Kueue's and other
    operators' webhooks. Without --policies, the GPU policy set is asked too. With --on that cluster's own
    policies, quotas and classes are asked (and those of --policies).

    Example: fairway policy test examples/01-two-teams
    """
    from fairway.admission import gpupolicies, trial
    from fairway.admission.request import ADMIN, ALL_AUTHENTICATED, User
    from fairway.cli.onground import ground_on
    from fairway.cli.output import check_output, print_json
    from fairway.cluster.store import Store
    from fairway.kube.manifest import read_path
    from fairway.twin.operators import OperatorWebhooks, settings_where_used

    check_output(output)
    _check_mode(mode)
    manifests = [m for file in files for m in read_path(file)]
    own = [m for file in policies or () for m in read_path(file)]
    user = ADMIN if as_user == ADMIN.name else User(as_user, (ALL_AUTHENTICATED,))
    store = Store()
    if on is not None:
        store = ground_on(on).at().fork().store
    elif not own:
        own = gpupolicies.manifests(mode)
    operators = OperatorWebhooks(store, lambda: settings_where_used(store))
    result = trial.judge(manifests, own, user, store, operators)
    if output == "json":
        print_json(_as_json(result))
    else:
        _print(result)
    if result.is_denied:
        raise typer.Exit(1)


def _check_mode(mode: str) -> None:
    from fairway.admission.gpupolicies import MODES
    from fairway.errors import UserError

    if mode not in MODES:
        raise UserError(f"--mode {mode!r}: expected one of {', '.join(MODES)}")


def _as_json(result: Trial) -> dict[str, object]:
    from dataclasses import asdict

    return {
        "judged": result.judged,
        "denied": result.is_denied,
        "findings": [asdict(f) for f in result.findings],
        "unboundPolicies": list(result.unbound),
        "unaskedWebhooks": list(result.unasked),
    }


def _print(result: Trial) -> None:
    from fairway.admission.trial import DENIED

    for f in result.findings:
        typer.echo(f"{f.file}:{f.line}: {f.subject}: {f.outcome}: {f.message}")
    for name in result.unbound:
        typer.echo(f"policy {name} has no binding: it is not asked", err=True)
    for name in result.unasked:
        typer.echo(f"webhook {name} cannot be asked here", err=True)
    denied = len({(f.file, f.subject) for f in result.findings if f.outcome == DENIED})
    warned = len({(f.file, f.subject) for f in result.findings if f.outcome != DENIED})
    objects = "1 object" if result.judged == 1 else f"{result.judged} objects"
    typer.echo(f"{objects}: {denied} denied, {warned} warned")
