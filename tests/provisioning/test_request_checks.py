"""ProvisioningRequests as a stranger would write them: every problem, with its line and field."""

from __future__ import annotations

import pytest

from fairway.kube.manifest import read_text
from fairway.provisioning.clusterautoscaler.requestchecks import problems_of

GOOD = """\
apiVersion: autoscaling.x-k8s.io/v1
kind: ProvisioningRequest
metadata: {name: a, namespace: default}
spec:
  provisioningClassName: check-capacity.autoscaling.x-k8s.io
  parameters: {noRetry: "true"}
  podSets:
  - {podTemplateRef: {name: t}, count: 2}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "path"),
    [
        ("check-capacity.auto", "Check_Capacity.auto", 5, "spec.provisioningClassName"),
        ('"true"', "true", 6, "spec.parameters[noRetry]"),
        ("count: 2", "count: 0", 8, "spec.podSets[0].count"),
        ("{name: t}", "{}", 8, "spec.podSets[0].podTemplateRef.name"),
        ("{name: t}", "{name: T}", 8, "spec.podSets[0].podTemplateRef.name"),
        ("  - {podTemplateRef: {name: t}, count: 2}\n", "    []\n", 7, "spec.podSets"),
        ("count: 2", "count: 2, cuont: 3", 8, "spec.podSets[0].cuont"),
    ],
)
def test_problems(old: str, new: str, line: int, path: str) -> None:
    assert old in GOOD
    (manifest,) = read_text(GOOD.replace(old, new), "r.yaml")
    (problem,) = problems_of(manifest)
    assert (problem.line, problem.path) == (line, path)


def test_a_good_one_has_none() -> None:
    (manifest,) = read_text(GOOD, "r.yaml")
    assert problems_of(manifest) == []
