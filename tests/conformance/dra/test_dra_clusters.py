"""Recorded clusters with devices, played; what differs is shown; files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.conformance.dra.clusters import verify_clusters
from fairway.errors import InvalidInput

RECORDED = Path(__file__).parents[3].parent / "shared" / "conformance" / "dra" / "dra.jsonl"


@pytest.mark.skipif(not RECORDED.exists(), reason="../shared/conformance/dra is not there")
def test_devices_go_where_they_were_recorded() -> None:
    result = verify_clusters(RECORDED)
    assert [d.text() for d in result.differences] == []
    assert result.agreed == result.total > 0


def test_what_differs_is_shown(tmp_path: Path) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    }
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "r"}]}}]}
    spec |= {"resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    step = {"do": [{"verb": "create", "object": pod}], "observed": {"pods": {"p": {"node": "n"}}}}
    file = tmp_path / "recording.jsonl"
    file.write_text(json.dumps({"name": "a row", "objects": [claim], "steps": [step]}) + "\n")
    result = verify_clusters(file)
    assert (result.agreed, result.total) == (0, 1)
    assert [d.aspect for d in result.differences] == ["pod p", "claim c"]


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[]",
        '{"name": "x"}',
        '{"name": "x", "objects": [{}], "steps": []}',
        '{"name": "x", "objects": [], "steps": [{}]}',
        '{"name": "x", "objects": [], "steps": [{"do": [{"create": {}}], "observed": {}}]}',
        "",
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "recording.jsonl"
    file.write_text(line + "\n")
    with pytest.raises(InvalidInput):
        verify_clusters(file)
