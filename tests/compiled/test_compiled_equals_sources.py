"""The same digests, verdicts and words, compiled or not: what the rest of the suite cannot see, as it runs one way."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairway.compiled import building, loading

EXAMPLES = Path(__file__).parents[2] / "examples"

RUNS = """
import sys
from pathlib import Path
from fairway.compiled import loading
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario

print(loading.is_active(), file=sys.stderr)
for name in sys.argv[2:]:
    found = run_scenario(load_scenario(Path(sys.argv[1]) / name))
    print(name, found.status.digest, [str(v) for v in found.verdicts])
"""

WRONG = """
import sys
from fairway.cluster.errors import ApiError
from fairway.cluster.store import Store
from fairway.errors import FairwayError
from fairway.kube.objects import Key

store = Store()
pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": []}}
store.create(pod)
for act in (
    lambda: store.create(pod),
    lambda: store.create({"apiVersion": "v1", "kind": "Pod", "metadata": {}}),
    lambda: store.require(Key("Pod", "default", "b")),
    lambda: store.delete(Key("Pod", "default", "a"), uid="other"),
    lambda: store.patch(Key("Pod", "default", "a"), [{"op": "remove", "path": "/x/y"}], form="json"),
    lambda: store.replace({**pod, "metadata": {"name": "a", "resourceVersion": "77"}}),
):
    try:
        act()
    except (ApiError, FairwayError) as refused:
        print(type(refused).__name__, refused)
"""


def said(program: str, *arguments: str, compiled: bool) -> tuple[str, str]:
    environment = {k: v for k, v in os.environ.items() if k != loading.SWITCH}
    if not compiled:
        environment[loading.SWITCH] = "0"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


needs_a_build = pytest.mark.skipif(not loading.is_active(), reason=loading.state())


@needs_a_build
def test_examples_have_the_same_digests_and_verdicts() -> None:
    names = sorted(p.relative_to(EXAMPLES).as_posix() for p in EXAMPLES.glob("0*/scenario.yaml"))
    assert len(names) >= 4
    fast, was_compiled = said(RUNS, str(EXAMPLES), *names, compiled=True)
    slow, was_pure = said(RUNS, str(EXAMPLES), *names, compiled=False)
    assert (was_compiled, was_pure) == ("True\n", "False\n")
    assert fast == slow


@needs_a_build
def test_refusals_have_the_same_words() -> None:
    fast, slow = said(WRONG, compiled=True)[0], said(WRONG, compiled=False)[0]
    assert fast == slow and len(fast.splitlines()) == 6


def test_nothing_outside_inherits_from_a_compiled_class() -> None:
    """mypyc cannot have it, and says so only when such an object is made."""
    package = loading.PACKAGE
    compiled = {package / path for path in building.compiled_files(package, building.MODULES)}
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in sorted(package.rglob("*.py"))}
    modules = {f"fairway.{'.'.join(file.relative_to(package).with_suffix('').parts)}" for file in compiled}
    heirs = [
        f"{file.relative_to(package)}: {found.name}"
        for file, tree in trees.items()
        if file not in compiled
        for theirs in [_imported(tree, modules)]
        for found in ast.walk(tree)
        if isinstance(found, ast.ClassDef)
        and any(base.id in theirs for base in found.bases if isinstance(base, ast.Name))
    ]
    assert not heirs


def _imported(tree: ast.Module, modules: set[str]) -> set[str]:
    """What a file calls the things that it takes from these modules."""
    taken = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module in modules]
    return {name.asname or name.name for one in taken for name in one.names}
