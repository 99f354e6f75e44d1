"""What a cluster refuses is refused in a simulation, told with its place, and decides how the run ends."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fairway.cli.main import main
from fairway.kube.objects import Key
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: node-1}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "110"}, capacity: {cpu: "8", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: locked, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: v1
kind: Pod
metadata: {name: fine}
spec: {containers: [{name: c, image: "i:1", command: [sleep, "10"]}], restartPolicy: Never}
"""
REFUSED = """\
apiVersion: v1
kind: Pod
metadata: {name: privileged, namespace: locked}
spec: {containers: [{name: c, image: "i:1", securityContext: {privileged: true}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: kata}
spec: {runtimeClassName: kata, containers: [{name: c, image: "i:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: robot}
spec: {serviceAccountName: robot, containers: [{name: c, image: "i:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: urgent}
spec: {priorityClassName: urgent, containers: [{name: c, image: "i:1"}]}
"""
WORDS = (
    'refused.yaml:1: Error from server (Forbidden): pods "privileged" is forbidden: violates PodSecurity',
    'refused.yaml:6: Error from server (Forbidden): pods "kata" is forbidden: pod rejected: RuntimeClass '
    '"kata" not found',
    'refused.yaml:11: Error from server (Forbidden): pods "robot" is forbidden: error looking up service account '
    'default/robot: serviceaccount "robot" not found',
    'refused.yaml:16: Error from server (Forbidden): pods "urgent" is forbidden: no PriorityClass with name urgent was '
    "found",
)
SCENARIO = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: s}
spec:
  manifests: [cluster.yaml, refused.yaml]
  assertions:
    - eventually pod/locked/privileged Refused
    - eventually pod/* Refused
    - never pod/fine Refused
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "refused.yaml").write_text(REFUSED)
    return tmp_path


def test_refused_objects_are_told_with_their_place_and_the_run_is_a_no(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", str(folder)]) == 1
    said = capsys.readouterr()
    for words in WORDS:
        assert f"{folder}/{words}" in said.err
    assert "fairway: 4 objects were refused" in said.err
    assert "1 Succeeded" in said.out or "1 succeeded" in said.out.lower()


def test_lenient_only_tells(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--lenient", str(folder)]) == 0
    assert "4 objects were refused" in capsys.readouterr().err


def test_a_scenario_may_say_that_it_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "scenario.yaml"
    file.write_text(SCENARIO.replace("    - eventually pod/* Refused\n", ""))
    assert main(["simulate", str(folder), "-o", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [r["expected"] for r in told["refused"]] == [True, False, False, False]
    assert all(a["passed"] for a in told["assertions"])
    assert main(["simulate", str(folder), "--seeds", "2"]) == 1
    capsys.readouterr()
    assert main(["simulate", str(folder), "-o", "junit"]) == 1
    suite = ElementTree.fromstring(capsys.readouterr().out)[0]
    assert (suite.get("tests"), suite.get("failures")) == ("5", "3")
    # `pod/*` is every pod of the namespace: the one that is let in was not refused.
    file.write_text(SCENARIO.replace("pod/* Refused", "pod/[kru]* Refused"))
    assert main(["simulate", str(folder)]) == 0


DENIES = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: none}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "false", message: no pods here}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: none}
spec: {policyName: none, validationActions: [Deny]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "i:1"}]}
"""


def test_refused_pods_of_controllers_are_events_and_no_failure_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(DENIES)
    assert main(["simulate", str(tmp_path), "--duration", "1m"]) == 0
    twin = build_twin(load_scenario(tmp_path))
    twin.run_for(60_000_000)
    assert twin.store.objects("Pod") == []
    (replicas,) = twin.store.objects("ReplicaSet.apps")
    about = Key("ReplicaSet.apps", "default", replicas["metadata"]["name"])
    said, *_ = {e.message for e in twin.host.events.about(about) if e.reason == "FailedCreate"}
    assert said.startswith('Error creating: pods "web-')
    assert said.endswith(
        "is forbidden: ValidatingAdmissionPolicy 'none' with binding 'none' denied request: no pods here"
    )
    (failing,) = (c for c in replicas["status"]["conditions"] if c["type"] == "ReplicaFailure")
    assert failing["reason"] == "FailedCreate"


ASKS = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: guards}
webhooks:
  - name: guard.example.com
    admissionReviewVersions: [v1]
    sideEffects: None
    clientConfig: {url: "https://guard.example.com/"}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
"""


def test_webhooks_nobody_can_ask_are_named_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "refused.yaml").write_text(ASKS)
    assert main(["simulate", str(folder)]) == 0
    said = capsys.readouterr().err
    assert said.count("webhook guard.example.com of guards cannot be asked here") == 1
    assert main(["policy", "test", str(folder)]) == 0
    assert capsys.readouterr().err.count("webhook guard.example.com of guards cannot be asked here") == 1


KEEPS = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: keep}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [configmaps]}]
  validations: [{expression: "oldObject.metadata.name != 'kept'", message: it stays}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: keep}
spec: {policyName: keep, validationActions: [Deny]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: kept}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: lost}
"""
DELETES = """\
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: d}
spec:
  manifests: [keeps.yaml]
  timeline:
    - {at: 30s, patch: {target: configmap/kept, patch: {data: {a: 1}}}}
    - {at: 1m, delete: [configmap/kept, configmap/lost, namespace/default]}
"""


def test_what_a_timeline_deletes_or_changes_passes_the_door_too(tmp_path: Path) -> None:
    (tmp_path / "keeps.yaml").write_text(
        KEEPS + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n"
    )
    (tmp_path / "scenario.yaml").write_text(DELETES)
    twin = build_twin(load_scenario(tmp_path))
    twin.run_for(180_000_000)
    assert [o["metadata"]["name"] for o in twin.store.objects("ConfigMap")] == ["kept"]
    said = [t.message for t in getattr(twin.component("scenario"), "troubles")]  # noqa: B009
    assert said[0].startswith('ConfigMap "kept" is invalid: data[a]'), "a number is no text"
    assert said[1].endswith("denied request: it stays")
    assert said[2] == 'namespaces "default" is forbidden: this namespace may not be deleted'
