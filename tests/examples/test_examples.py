"""Every example runs, says what its README says, and the documents' examples are executed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fairway.cli.main import main
from fairway.errors import InvalidInput
from fairway.kube.manifest import read_text
from fairway.results.alerting import alerts_of
from fairway.scenario.actionreading import ACTIONS
from fairway.scenario.assertions import parse, vocabulary
from fairway.scenario.assertions.evidence import Evidence
from fairway.scenario.assertions.grammar import Assertion
from fairway.scenario.assertions.judging import judge
from fairway.scenario.fleet import FIELDS as FLEET
from fairway.scenario.loading import load_scenario
from fairway.scenario.reading import FAULT, MATCH, SPEC
from fairway.scenario.recipes import recipe_from_file
from fairway.scenario.running import Finished, run_scenario
from fairway.scenario.tracereading import _RECIPE, _USE
from fairway.traces.generate import generate
from fairway.traces.generic import read_generic
from fairway.traces.rows import COLUMNS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SCENARIOS = sorted(
    p.relative_to(EXAMPLES).as_posix()
    for p in EXAMPLES.glob("[0-9]*/*.yaml")
    if "kind: Scenario" in p.read_text(encoding="utf-8")
)
# Variants that are there to fail, and the assertions that do.
FAILING = {
    "02-rollout-scarce-gpus/surge-1.yaml": [True, True, True, False],
    "06-load-130/spread.yaml": [True, True, False],
}
# Kinds of our own that Kubernetes and the field have no word for.
OWN_KINDS = ("Budget", "PriceBook", "ServiceMix")


@pytest.fixture(scope="module")
def finished() -> dict[str, Finished]:
    """Runs of this module, each made once."""
    return {}


def run(name: str, runs: dict[str, Finished]) -> Finished:
    if name not in runs:
        runs[name] = run_scenario(load_scenario(EXAMPLES / name), alerts_of=alerts_of)
    return runs[name]


@pytest.mark.parametrize("name", SCENARIOS)
def test_examples_hold(name: str, finished: dict[str, Finished]) -> None:
    result = run(name, finished)
    failed = [not v.passed for v in result.verdicts]
    assert failed == FAILING.get(name, [False] * len(failed)), [
        (v.text, v.shown, v.worst) for v in result.verdicts if not v.passed
    ]
    assert result.verdicts
    assert result.status.troubles == ()


def test_every_example_explains_itself() -> None:
    directories = sorted(p for p in EXAMPLES.glob("[0-9]*") if p.is_dir())
    assert len(directories) >= 20
    for directory in directories:
        readme = (directory / "README.md").read_text(encoding="utf-8")
        assert f"examples/{directory.name}" in readme
        if (directory / "scenario.yaml").exists():
            assert f"fairway simulate examples/{directory.name}" in readme
            assert load_scenario(directory).assertions
        for line in readme.splitlines():
            if line.startswith("    fairway simulate "):
                path = ROOT / shlex.split(line, comments=True)[2]
                assert path.exists(), line


def test_packing_beats_spreading_as_the_readme_says(finished: dict[str, Finished]) -> None:
    packed = run("06-load-130/scenario.yaml", finished).verdicts[0].measured
    spread = run("06-load-130/spread.yaml", finished).verdicts[0].measured
    assert packed is not None and spread is not None and packed < 0.7 * spread


# docs/assertions.md


def _blocks(document: str, language: str) -> list[str]:
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


ASSERTIONS = [line for block in _blocks("assertions.md", "assertion") for line in block.splitlines() if line]


@pytest.mark.parametrize("text", ASSERTIONS)
def test_documented_assertions_are_judged(text: str, finished: dict[str, Finished]) -> None:
    outcome = run("01-two-teams/scenario.yaml", finished).outcome
    verdict = judge(Assertion(text, parse(text)), Evidence(outcome, lost_work_us=0))
    assert verdict.shown


def test_the_whole_vocabulary_is_documented_and_shown() -> None:
    document = (ROOT / "docs" / "assertions.md").read_text(encoding="utf-8")
    for metric in vocabulary.METRICS.values():
        assert f"| `{metric.name}`" in document and metric.meaning in document, metric.name
        assert any(metric.name in text for text in ASSERTIONS), metric.name
    for of in vocabulary.SETS.values():
        assert f"| `{of.name}` | {of.rows} | {of.meaning} |" in document, of.name
    for fields in vocabulary.FIELDS.values():
        for name in fields:
            assert f"`{name}`" in document, name
            assert any(re.search(rf"\b{name}\b", text) for text in ASSERTIONS), name
    for states in vocabulary.STATES.values():
        assert ", ".join(states) in document, states


# docs/traces.md


def test_the_documented_rows(tmp_path: Path) -> None:
    (block,) = _blocks("traces.md", "csv")
    path = tmp_path / "jobs.csv"
    path.write_text(block, encoding="utf-8")
    with pytest.raises(InvalidInput) as caught:
        read_generic(path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (4, "submit_time")
    assert "expected seconds since the trace's start, as in the rows before" in problem.expected
    trace = read_generic(path, lenient=True)
    assert [j.job_id for j in trace.jobs] == ["train-1", "eval-1"]


def test_every_column_and_option_of_traces_is_documented() -> None:
    document = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
    for column in COLUMNS:
        assert f"| `{column}` |" in document, column
    (recipe,) = _blocks("traces.md", "yaml recipe")
    for name in _RECIPE:
        assert re.search(rf"^{name}:", recipe, re.MULTILINE), name
    (use,) = _blocks("traces.md", "yaml")
    for name in _USE:
        assert f"{name}:" in use, name


def test_the_documented_recipe(tmp_path: Path) -> None:
    (block,) = _blocks("traces.md", "yaml recipe")
    path = tmp_path / "recipe.yaml"
    path.write_text(block, encoding="utf-8")
    assert len(generate(recipe_from_file(path), 1).jobs) == 500


def test_the_documented_use(tmp_path: Path) -> None:
    (block,) = _blocks("traces.md", "yaml")
    head = "apiVersion: fairway.dev/v1alpha1\nkind: Scenario\nmetadata: {name: doc}\n"
    (tmp_path / "scenario.yaml").write_text(head + block, encoding="utf-8")
    rows = "\n".join(f"j{i},{i * 3600},60,1" for i in range(240))
    (tmp_path / "jobs.csv").write_text(f"job_id,submit_time,run_time,gpus\n{rows}\n", encoding="utf-8")
    assert len(load_scenario(tmp_path).traces) == 1


def test_the_documented_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = _blocks("traces.md", "console")
    for line in block.splitlines():
        assert main(shlex.split(line.removeprefix("$ fairway "))) == 0, line


# docs/scenarios.md


def test_the_documented_scenario_runs(tmp_path: Path) -> None:
    (block,) = _blocks("scenarios.md", "yaml scenario")
    (tmp_path / "scenario.yaml").write_text(block, encoding="utf-8")
    (tmp_path / "jobs").mkdir()
    serving = "apiVersion: v1\nkind: Namespace\nmetadata: {name: serving}\n"
    (tmp_path / "jobs" / "a.yaml").write_text(serving, encoding="utf-8")
    (tmp_path / "later.yaml").write_text(serving.replace("serving", "late"), encoding="utf-8")
    kubelet = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
    (tmp_path / "kubelet.yaml").write_text(kubelet, encoding="utf-8")
    result = run_scenario(load_scenario(tmp_path))
    assert result.status.ended == "duration" and len(result.outcome.nodes) >= 8


def test_every_field_and_action_is_documented() -> None:
    document = (ROOT / "docs" / "scenarios.md").read_text(encoding="utf-8")
    for name in (*SPEC, *FLEET, *MATCH, *FAULT):
        assert re.search(rf"\b{name}:", document), name
    for name in ACTIONS:
        assert re.search(rf"^\| .*`{name}`.* \|", document, re.MULTILINE), name


def test_examples_are_plain_kubernetes() -> None:
    """Nothing but the scenario itself, budgets and prices are of a kind of our own."""
    files = sorted(EXAMPLES.glob("[0-9]*/*/*.yaml"))
    assert len(files) > len(SCENARIOS)
    for path in files:
        for manifest in read_text(path.read_text(encoding="utf-8"), str(path)):
            is_ours = "fairway.dev" in manifest.obj["apiVersion"]
            assert not is_ours or manifest.obj["kind"] in OWN_KINDS, path
