"""`fairway doctor`: what is wrong here?"""

from __future__ import annotations

from typing import Annotated

import typer

from fairway.cli.onground import At, On

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def doctor(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SYMPTOM]…", help="Which; all without one.")
    ] = None,
    on: On = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NS", help="Only there.", show_default=False)
    ] = None,
    at: At = None,
    list_only: Annotated[bool, typer.Option("--list", help="Only list symptoms and their checks.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")
    ] = "table",
) -> None:
    """Go through the usual symptoms of a GPU cluster, in order: the signal, evidence, the command, the fix.

    Exits 1 when something is ill.

    Example: fairway doctor pending crash-loop --on dump.yaml
    """
    from fairway.answers.doctor.checkup import checkup, is_well
    from fairway.answers.doctor.checkuptext import checkup_lines
    from fairway.answers.doctor.findings import Patient
    from fairway.answers.doctor.symptoms import symptoms
    from fairway.cli.onground import ground_on
    from fairway.cli.output import check_output, print_json, print_table
    from fairway.cli.screen import print_lines

    check_output(output)
    if list_only:
        rows = [(s.name, s.title, c.signal) for s in symptoms() for c in s.checks]
        if output == "json":
            print_json([{"symptom": n, "title": t, "signal": s} for n, t, s in rows])
        else:
            print_table(("SYMPTOM", "WHAT IT IS", "WHERE ALL IS WELL"), rows)
        return
    ground = ground_on(on)
    moment = ground.at(at)
    results = checkup(Patient(moment, ground.history(at).outcome, namespace), names or ())
    if output == "json":
        print_json({"checks": [r.as_json() for r in results], "unknown": list(moment.notes)})
    else:
        print_lines(lambda width: checkup_lines(results, moment.notes, width))
    if not is_well(results):
        raise typer.Exit(1)
