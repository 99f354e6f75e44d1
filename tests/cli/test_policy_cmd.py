"""`fairway policy`: print the set, try it on files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fairway.cli.main import main
from fairway.kube.manifest import read_text

POD = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: unrelated}
---
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: ml}
spec:
  containers:
    - {name: c, image: i, resources: {limits: {nvidia.com/gpu: 1}}}
"""


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    file = tmp_path / "pod.yaml"
    file.write_text(POD)
    return file


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "WHAT", "IT", "ASKS"]
    assert "fairway-gpu-placement" in "".join(lines)
    assert main(["policy", "list", "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(lines) - 1


@pytest.mark.parametrize(("mode", "actions"), [("warn", ["Warn", "Audit"]), ("enforce", ["Deny", "Audit"])])
def test_show_prints_what_kubectl_applies(
    capsys: pytest.CaptureFixture[str], mode: str, actions: list[str]
) -> None:
    assert main(["policy", "show", "--mode", mode]) == 0
    objects = [m.obj for m in read_text(capsys.readouterr().out, "out")]
    bindings = [o for o in objects if o["kind"].endswith("Binding")]
    assert len(objects) == 2 * len(bindings)
    assert all(b["spec"]["validationActions"] == actions for b in bindings)


def test_show_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", "fairway-gpu-namespaces", "-o", "json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [i["kind"] for i in items] == ["ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"]


def test_a_refused_manifest_is_located(pod: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", str(pod)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        f'{pod}:5: Pod ml/train: denied: pods "train" is forbidden: ValidatingAdmissionPolicy '
        "'fairway-gpu-namespaces' with binding 'fairway-gpu-namespaces' denied request: namespace ml may not"
    )
    assert lines[-1] == "2 objects: 1 denied, 0 warned"


def test_warnings_are_not_a_no(pod: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", "--mode", "warn", "-o", "json", str(pod)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["judged"], told["denied"]) == (2, False)
    assert {f["outcome"] for f in told["findings"]} == {"warned"}


OWN = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: own}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [""], apiVersions: ["v1"], operations: ["*"], resources: ["pods"]}
  validations:
    - {expression: "request.userInfo.username == 'bob'", message: only bob}
"""
BINDING = """\
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: own}
spec: {policyName: own, validationActions: [Deny]}
"""


def test_policies_of_ones_own(pod: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(OWN + BINDING)
    assert main(["policy", "test", "-p", str(own), str(pod)]) == 1
    assert "denied request: only bob" in capsys.readouterr().out
    assert main(["policy", "test", "-p", str(own), "--as", "bob", str(pod)]) == 0


def test_a_clusters_own_policies(pod: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a ground: its policies and quotas are asked, and the GPU policy set is not."""
    meta, spec = "{name: none, namespace: ml, uid: u}", "{hard: {pods: '0'}}"
    quota = f"apiVersion: v1\nkind: ResourceQuota\nmetadata: {meta}\nspec: {spec}\n"
    dump = tmp_path / "dump.yaml"
    dump.write_text(quota + "---\n" + OWN + BINDING)
    assert main(["policy", "test", str(pod), "--on", str(dump)]) == 1
    assert "denied request: only bob" in capsys.readouterr().out
    assert main(["policy", "test", str(pod), "--on", str(dump), "--as", "bob"]) == 1
    assert "exceeded quota: none" in capsys.readouterr().out
    dump.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: ml, uid: u}\n")
    assert main(["policy", "test", str(pod), "--on", str(dump)]) == 0


def test_an_unbound_policy_is_mentioned(
    pod: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "own.yaml"
    own.write_text(OWN)
    assert main(["policy", "test", "-p", str(own), str(pod)]) == 0
    assert "policy own has no binding: it is not asked" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["test", "nowhere.yaml"],
        ["show", "nothing"],
        ["show", "--mode", "maybe"],
        ["list", "-o", "xml"],
        ["test"],
    ],
)
def test_wrong_input_is_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", *arguments]) == 2
    assert "Traceback" not in capsys.readouterr().err


BROKEN = {
    "a list where a mapping belongs": ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: []\n", ":4:"),
    "text where a list belongs": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: x}\n",
        ":4:",
    ),
    "a policy that does not compile": (OWN.replace("'bob'", "") + BINDING, "compilation failed"),
    "a binding that wants both": (
        BINDING.replace("[Deny]", "[Deny, Warn]"),
        "must not contain both Deny and Warn",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_used_is_located(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, want = BROKEN[name]
    file = tmp_path / "broken.yaml"
    file.write_text(text)
    assert main(["policy", "test", str(file)]) == 2
    told = capsys.readouterr().err
    assert str(file) in told
    assert want in told


def test_an_invalid_object_is_refused_before_policies_see_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(POD.replace("{limits: {nvidia.com/gpu: 1}}", "{requests: {nvidia.com/gpu: 1}}"))
    assert main(["policy", "test", str(file)]) == 1
    out = capsys.readouterr().out
    assert "Limit must be set for non overcommitable resources" in out
    assert "fairway-gpu" not in out
