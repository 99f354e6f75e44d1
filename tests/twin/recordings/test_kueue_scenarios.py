"""Recorded scenarios of the real Kueue, where they are at hand, and how differences are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.cli.verify_kueue_cmd import kueue_scenarios
from fairway.errors import InvalidInput
from fairway.twin.recordings.kueue_scenarios import verify_scenarios

SHARED = Path(__file__).parents[3].parent / "shared" / "conformance" / "kueue-scenarios"
FILES = sorted(SHARED.glob("*.jsonl"))


@pytest.mark.skipif(not FILES, reason="../shared/conformance/kueue-scenarios is not there")
@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_all_scenarios_agree(file: Path) -> None:
    result = verify_scenarios(file)
    assert [d.text() for d in result.differences] == []
    assert result.agreed == result.total > 0


def _scenario(observed: object) -> str:
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "x"},
        "spec": {},
    }
    step = {"do": [{"verb": "apply", "object": flavor}], "observed": observed, "rejected": []}
    return json.dumps({"name": "small", "steps": [step]}) + "\n"


def test_a_difference_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenarios.jsonl"
    file.write_text(_scenario({"jobs": {"a/train": {"active": 1}}}))
    assert kueue_scenarios(file, True, "table") == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "line 1 small: step 0: jobs a/train"
    assert printed[-1] == "agree 0 of 1"


def test_agreement_exits_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenarios.jsonl"
    file.write_text(_scenario({"jobs": {}, "pods": {}, "workloads": {}}))
    assert kueue_scenarios(file, False, "json") == 0
    assert json.loads(capsys.readouterr().out) == {"agreed": 1, "total": 1, "differences": []}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no scenarios"),
        ("nonsense\n", "expected a JSON object"),
        ('{"name": "x"}\n', "expected a scenario with a list of steps"),
        ('{"steps": [{"do": [{"verb": "apply"}]}]}\n', "expected an object with kind and metadata.name"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(text)
    with pytest.raises(InvalidInput, match=says):
        verify_scenarios(file)
