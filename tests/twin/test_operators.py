"""The door into the store: defaults, Kueue, admission, in the API server's order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairway.admission.request import Admitted, Denied
from fairway.cluster.errors import ApiError
from fairway.errors import InvalidInput
from fairway.kube.objects import Key
from fairway.queueing.webhooks.settings import Settings
from fairway.scenario.entering import create_or_replace
from fairway.scenario.loading import load_scenario
from fairway.twin.components import Host
from fairway.twin.twin import Twin

Obj = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE = Settings()


def world(kueue: Settings | None = None) -> Host:
    host = Twin().host
    host.put_door(lambda: kueue)
    return host


def enter(obj: Obj, kueue: Settings | None = None) -> Admitted | Denied:
    return world(kueue).door.enter(obj)


def job(queue: str = "", **spec: Any) -> Obj:
    labels = {QUEUE: queue} if queue else {}
    containers = [{"name": "c", "image": "i"}]
    template = {"spec": {"containers": containers, "restartPolicy": "Never"}}
    meta = {"name": "j", "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {"template": template, **spec}}


def cluster_queue(**spec: Any) -> Obj:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": spec,
    }


def test_a_job_is_suspended_only_where_a_kueue_runs() -> None:
    with_kueue, without = enter(job("a"), KUEUE), enter(job("a"))
    assert isinstance(with_kueue, Admitted)
    assert isinstance(without, Admitted)
    assert with_kueue.obj["spec"]["suspend"] is True
    assert without.obj["spec"].get("suspend") in (None, False)
    assert with_kueue.obj["metadata"]["namespace"] == "default"


def test_a_refusal_has_the_servers_words() -> None:
    answer = enter(cluster_queue(stopPolicy="Halt"))
    assert isinstance(answer, Denied)
    assert answer.code == 422
    assert answer.message.startswith(
        'ClusterQueue.kueue.x-k8s.io "q" is invalid: [spec.stopPolicy: Unsupported value'
    )
    answer = enter(job("No Name"), KUEUE)
    assert isinstance(answer, Denied)
    assert (answer.code, answer.plugin) == (403, "vjob.kb.io")


def test_what_kueues_definitions_do_not_know() -> None:
    """A version that is none; a field that is none, where somebody asks for strictness."""
    answer = enter({**cluster_queue(), "apiVersion": "kueue.x-k8s.io/v9"})
    assert isinstance(answer, Denied)
    assert (answer.code, answer.message) == (
        404,
        'no matches for kind "ClusterQueue" in version "kueue.x-k8s.io/v9"',
    )
    odd = cluster_queue(fieldOfNone=1)
    answer = world().door.enter(odd, strict=True)
    assert isinstance(answer, Denied)
    assert (answer.code, answer.message) == (
        400,
        'ClusterQueue in version "v1beta1" cannot be handled as a ClusterQueue: strict decoding error: '
        'unknown field "spec.fieldOfNone"',
    )
    lax = world().door.enter(odd, strict=False)
    assert isinstance(lax, Admitted)


def test_objects_are_stored_in_the_version_kueue_stores() -> None:
    stored = create_or_replace(world(), cluster_queue(cohort="a"))
    assert stored["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert stored["spec"]["cohortName"] == "a"


def test_an_update_passes_the_door_too() -> None:
    host = world(KUEUE)
    create_or_replace(host, job("a", suspend=False, parallelism=1))
    host.store.patch(Key("Job.batch", "default", "j"), {"spec": {"suspend": False}})
    with pytest.raises(ApiError, match="field is immutable"):
        create_or_replace(host, job("b", suspend=False, parallelism=1))


def test_quota_is_charged_for_what_enters() -> None:
    host = world(KUEUE)
    meta = {"name": "few", "namespace": "default"}
    spec = {"hard": {"count/jobs.batch": "1"}}
    host.store.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": spec, "status": spec}
    )
    create_or_replace(host, job("a"))
    second = job("a")
    second["metadata"]["name"] = "k"
    with pytest.raises(ApiError, match="exceeded quota: few"):
        create_or_replace(host, second)


def test_hami_denies_pods_where_it_is_installed() -> None:
    """And asks for its scheduler; elsewhere nobody does."""
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
    plain = {**pod, "spec": {"containers": [container]}}
    privileged = {**pod, "spec": {"containers": [{**container, "securityContext": {"privileged": True}}]}}
    host = world()
    for one in (plain, privileged):
        found = host.door.enter(one)
        assert isinstance(found, Admitted) and found.obj["spec"].get("schedulerName") == "default-scheduler"
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}}}
    meta = {"name": "hami-device-plugin", "namespace": "kube-system"}
    host.store.create({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": spec})
    entered, denied = host.door.enter(plain), host.door.enter(privileged)
    assert isinstance(entered, Admitted) and isinstance(denied, Denied)
    assert entered.obj["spec"]["schedulerName"] == "hami-scheduler"
    limits = entered.obj["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"nvidia.com/gpu": "1", "nvidia.com/gpucores": "100"}
    said = 'admission webhook "vgpu.hami.io" denied the request: container c is privileged'
    assert (denied.code, denied.message, denied.plugin) == (403, said, "vgpu.hami.io")


SCENARIO = """
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: k}
spec:
  nodes: [{name: a, capacity: {cpu: 1}}]
  kueue:
    configuration:
      %s
"""


def test_a_scenario_says_how_kueue_is_configured(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO % "fairSharing: {preemptionStrategies: [LessThanInitialShare]}")
    kueue = load_scenario(file).kueue
    assert kueue is not None
    assert kueue.strategies == ("LessThanInitialShare",)
    assert "pod" in kueue.frameworks


def test_a_scenario_names_kueues_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "kueue.yaml").write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nmanageJobsWithoutQueueName: true\n"
    )
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.replace("configuration:\n      %s", "configuration: kueue.yaml"))
    kueue = load_scenario(file).kueue
    assert kueue is not None
    assert kueue.manages_without_queue_name
    assert kueue.frameworks == ("batch/job",)


def test_what_kueue_would_refuse_is_found_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO % "fairSharing: {preemptionStrategies: [Fair]}")
    with pytest.raises(
        InvalidInput, match=r"scenario\.yaml:9: Configuration: fairSharing\.preemptionStrategies"
    ):
        load_scenario(file)


def test_a_manifest_kueue_would_refuse_is_found_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "queue.yaml"
    file.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: q}\nspec:\n  stopPolicy: Halt\n"
        "  cohort: a\n"
    )
    with pytest.raises(InvalidInput) as caught:
        load_scenario(file)
    assert str(caught.value).splitlines() == [f'{file}:6: ClusterQueue q: unknown field "spec.cohort"']
