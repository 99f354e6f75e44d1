"""One door: what a cluster refuses is refused in the same words by `simulate`, `up` and `policy test`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fairway.admission import trial
from fairway.admission.request import ADMIN
from fairway.cluster.store import Store
from fairway.errors import InvalidInput
from fairway.kube.kinds import kind_named
from fairway.kube.manifest import Manifest, read_path, write_yaml
from fairway.kube.objects import Obj, gk_of, name_of
from fairway.kube.timestamps import SECOND_US
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import run_scenario
from fairway.twin.operators import OperatorWebhooks, settings_where_used

COUNT = itertools.count()
REGISTRATION = "admissionregistration.k8s.io/v1"
RULES = [
    {
        "apiGroups": ["", "apps", "batch"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods", "jobs", "deployments", "configmaps"],
    }
]
EXPRESSIONS = (
    "has(object.metadata.labels) && 'team' in object.metadata.labels",
    "!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.projected))",
    "object.kind != 'Pod' || object.spec.serviceAccountName == 'default'",
    "object.metadata.name.startsWith('a')",
    "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] != 'x'",
    "object.kind != 'Pod' || object.spec.priority >= 0",
    "request.userInfo.username == 'kubernetes-admin'",
    "object.spec.nothing == 1",
)
MUTATIONS = (
    "Object{metadata: Object.metadata{labels: {'team': 'given'}}}",
    "Object{metadata: Object.metadata{labels: {'team': 'not a label!'}}}",
    "Object{spec: Object.spec{priorityClassName: 'late'}}",
)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One whose controllers stand still: what is created is all there is."""
    with served(tmp_path_factory.mktemp("cluster"), paused=True) as found:
        found.until_ready()
        yield found


def cluster_policy(kind: str, name: str, home: str, spec: dict[str, Any], actions: list[str]) -> list[Obj]:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": home}}
    binding: dict[str, Any] = {"policyName": name, "matchResources": {"namespaceSelector": selector}}
    if actions:
        binding["validationActions"] = actions
    made = {"matchConstraints": {"resourceRules": RULES}, **spec}
    return [
        {"apiVersion": REGISTRATION, "kind": kind, "metadata": {"name": name}, "spec": made},
        {"apiVersion": REGISTRATION, "kind": f"{kind}Binding", "metadata": {"name": name}, "spec": binding},
    ]


@st.composite
def surroundings(draw: st.DrawFn, home: str) -> list[Obj]:
    """What is in the cluster before anybody comes."""
    labels = {"kubernetes.io/metadata.name": home}
    level = draw(st.sampled_from(["", "", "baseline", "restricted"]))
    if level:
        labels["pod-security.kubernetes.io/enforce"] = level
    made: list[Obj] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home, "labels": labels}}
    ]
    for n in range(draw(st.integers(0, 2))):
        says = draw(st.sampled_from(EXPRESSIONS))
        actions = draw(st.sampled_from([["Deny"], ["Warn"], ["Deny", "Audit"]]))
        spec = {"validations": [{"expression": says, "message": draw(st.sampled_from(["no", "never"]))}]}
        made += cluster_policy("ValidatingAdmissionPolicy", f"{home}-v{n}", home, spec, actions)
    if draw(st.integers(0, 3)) == 0:
        change = {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {"expression": draw(st.sampled_from(MUTATIONS))},
        }
        spec = {"mutations": [change], "reinvocationPolicy": "Never"}
        made += cluster_policy("MutatingAdmissionPolicy", f"{home}-m", home, spec, [])
    here = {"namespace": home}
    if draw(st.booleans()):
        limit = {"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}
        made.append(
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "l", **here},
                "spec": {"limits": [limit]},
            }
        )
    if draw(st.booleans()):
        hard = draw(
            st.sampled_from(
                [{"pods": "1"}, {"requests.cpu": "2"}, {"count/jobs.batch": "0", "configmaps": "2"}]
            )
        )
        made.append(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q", **here},
                "spec": {"hard": hard},
            }
        )
    if draw(st.booleans()):
        made.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", **here}})
    made.append(
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": f"{home}-rc"},
            "handler": "nvidia",
        }
    )
    return made


@st.composite
def pod_specs(draw: st.DrawFn, home: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "i"}
    amount = draw(st.sampled_from([None, "1", "2", "3"]))
    if amount:
        container["resources"] = {"requests": {"cpu": amount}, "limits": {"cpu": amount}}
    if draw(st.booleans()):
        container["securityContext"] = {"privileged": draw(st.booleans())}
    spec: dict[str, Any] = {"containers": [container], "restartPolicy": "Never"}
    if draw(st.booleans()):
        spec["runtimeClassName"] = draw(st.sampled_from([f"{home}-rc", "kata"]))
    if draw(st.booleans()):
        spec["serviceAccountName"] = draw(st.sampled_from(["robot", "default"]))
    if draw(st.booleans()):
        spec["priorityClassName"] = draw(st.sampled_from(["system-node-critical", "urgent"]))
    if draw(st.integers(0, 5)) == 0:
        spec["hostNetwork"] = True
    if draw(st.integers(0, 9)) == 0:
        container["name"] = "Not A Name"
    return spec


@st.composite
def newcomers(draw: st.DrawFn, home: str) -> list[Obj]:
    made = []
    for n in range(draw(st.integers(1, 3))):
        meta: dict[str, Any] = {"name": f"{draw(st.sampled_from('ab'))}{n}", "namespace": home}
        if draw(st.booleans()):
            meta["labels"] = {"team": "a"}
        kind = draw(st.sampled_from(["Pod", "Pod", "Job", "ConfigMap"]))
        if kind == "ConfigMap":
            made.append({"apiVersion": "v1", "kind": kind, "metadata": meta, "data": {"a": "b"}})
            continue
        spec = draw(pod_specs(home))
        if kind == "Pod":
            made.append({"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec})
        else:
            made.append(
                {
                    "apiVersion": "batch/v1",
                    "kind": kind,
                    "metadata": meta,
                    "spec": {"suspend": True, "template": {"spec": spec}},
                }
            )
    # In the order in which simulations create them.
    return sorted(made, key=lambda o: o["kind"] != "ConfigMap")


def posted(api: Served, obj: Obj) -> str:
    """What the served API answers to a creation: its refusal, or nothing."""
    kind = kind_named(gk_of(obj))
    root = "/api/v1" if not kind.group else f"/apis/{obj['apiVersion']}"
    home = f"/namespaces/{obj['metadata']['namespace']}" if kind.namespaced else ""
    status, body = api.ask("POST", f"{root}{home}/{kind.plural}", obj)
    assert status < 500, body
    return "" if status < 300 else str(body["message"])


def tried(manifests: list[Manifest]) -> dict[tuple[str, str], str]:
    """Refusals of `policy test`: the first for each object."""
    store = Store()
    found = trial.judge(
        manifests, [], ADMIN, store, OperatorWebhooks(store, lambda: settings_where_used(store))
    )
    said: dict[tuple[str, str], str] = {}
    for finding in found.findings:
        if finding.outcome == trial.DENIED:
            kind, _, name = finding.subject.partition(" ")
            said.setdefault((kind, name.rpartition("/")[2]), finding.message)
    return said


def simulated(folder: Path) -> dict[tuple[str, str], str] | InvalidInput:
    """Refusals of `simulate`; or what it says to objects that no API server could read or keep."""
    try:
        # A minute of it: without nodes the scheduler tries again every ten seconds for ever.
        finished = run_scenario(replace(load_scenario(folder), duration_us=60 * SECOND_US))
    except InvalidInput as wrong:
        return wrong
    return {(r.key.gk.partition(".")[0], r.key.name): r.message for r in finished.status.refusals}


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_the_same_verdict_in_the_same_words(
    api: Served, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    home = f"team-{next(COUNT)}"
    before, new = data.draw(surroundings(home)), data.draw(newcomers(home))
    assert [posted(api, obj) for obj in before] == [""] * len(before)
    answers = {(o["kind"], name_of(o)): said for o in new if (said := posted(api, o))}
    folder = tmp_path_factory.mktemp("files")
    (folder / "all.yaml").write_text(write_yaml([*before, *new]), encoding="utf-8")
    assert tried(read_path(folder)) == answers
    ran = simulated(folder)
    if isinstance(ran, InvalidInput):
        # Files with objects that are wrong in themselves are not run at all. The server refuses them too; in the same
        # words, unless an admission plugin spoke before the rules of the kind were asked.
        assert ran.problems
        for problem in ran.problems:
            kind, name = problem.subject.split(" ")
            answer = answers[(kind, name.rpartition("/")[2])]
            assert problem.expected in answer or "is invalid" not in answer
    else:
        assert ran == answers


def test_a_definition_with_a_rule_that_does_not_compile_is_refused(api: Served) -> None:
    spec = {"type": "object", "x-kubernetes-validations": [{"rule": "self.a +"}]}
    schema = {"type": "object", "properties": {"spec": spec}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rooms.ruled.example.com"},
        "spec": {
            "group": "ruled.example.com",
            "scope": "Namespaced",
            "names": {"plural": "rooms", "kind": "Room", "singular": "room"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }
    assert "x-kubernetes-validations[0].rule: Invalid value: apiextensions.ValidationRule{" in posted(
        api, crd
    )
    spec["x-kubernetes-validations"] = [{"rule": "self.a > 1"}]
    assert posted(api, crd) == ""
