"""A Volcano Job's defaults, its pods under every set of plugins, what the plugins keep beside them, and its Queue.

Source: volcano-sh/volcano pkg/controllers/job/job_controller_util.go createJobPod, plugins/{env,svc,ssh},
pkg/controllers/queue/state, pkg/webhooks/admission/jobs/mutate/mutate_job.go.
"""

from __future__ import annotations

import base64
from itertools import product
from typing import Any

import pytest

from fairway.cluster.actions import SetStatus
from fairway.cluster.changes import ADDED, DELETED, MODIFIED, Change
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import parse_rfc3339
from fairway.workloads.pods import MOST_OBJECT_BYTES
from fairway.workloads.volcanojob import controllers, podgroups, queues
from fairway.workloads.volcanojob.gang import min_resources, new_group
from fairway.workloads.volcanojob.pods import has_too_many_hosts, helpers_of, hosts_of, job_pod
from fairway.workloads.volcanojob.spec import VolcanoJob, read_job

NOW = parse_rfc3339("2026-01-05T08:00:00Z")
PLUGINS = ("env", "ssh", "svc")


def task(name: str = "worker", replicas: int = 2, pod: Obj | None = None, **more: Any) -> Obj:
    spec = {"containers": [{"name": "main", "image": "train:1"}], **(pod or {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def job(*tasks: Obj, meta: Obj | None = None, status: Obj | None = None, **spec: Any) -> VolcanoJob:
    return read_job(
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "train", "namespace": "ml", "uid": "u1", **(meta or {})},
            "spec": {"tasks": list(tasks or (task(),)), **spec},
            "status": status or {},
        }
    )


def pod_of(made: VolcanoJob, index: int = 1) -> Obj:
    return job_pod(made, made.tasks[0], index)


def test_what_a_job_leaves_open_is_filled_in() -> None:
    bare = job(task("a", 3), task("b", 2, minAvailable=0), {})
    assert [(t.name, t.replicas, t.min_available) for t in bare.tasks] == [
        ("a", 3, 3),
        ("b", 2, 0),
        ("default2", 0, 0),
    ]
    assert (bare.min_available, bare.min_of_tasks, bare.replicas) == (3, 3, 5)
    assert (bare.queue, bare.scheduler_name, bare.max_retry) == ("default", "volcano", 3)
    assert (bare.min_success, bare.ttl_s, bare.priority_class, bare.plugins) == (None, None, "", {})
    told = job(
        minAvailable=1, queue="q", schedulerName="s", maxRetry=7, minSuccess=0, ttlSecondsAfterFinished=0
    )
    assert (told.min_available, told.queue, told.scheduler_name, told.max_retry) == (1, "q", "s", 7)
    assert (told.min_success, told.ttl_s) == (0, 0)
    either = job(task(dependsOn={"name": ["x"], "iteration": "any"}), task(dependsOn={"name": ["x", "y"]}))
    assert [(t.depends_on, t.depends_on_any) for t in either.tasks] == [(("x",), True), (("x", "y"), False)]


def test_a_pods_marks_say_where_it_belongs_beside_what_its_template_says() -> None:
    inherited = {"volcano.sh/preemptable": "true", "other": "no"}
    given = {"metadata": {"labels": {"mine": "1"}, "annotations": {"note": "2"}}}
    one = task()
    one["template"] = {**given, **one["template"]}
    made = job(
        one,
        queue="gold",
        meta={"labels": inherited, "annotations": {**inherited, "volcano.sh/cooldown-time": "9s"}},
        status={"version": 4, "retryCount": 2},
    )
    pod = pod_of(made)
    assert pod["metadata"]["name"] == "train-worker-1"
    assert pod["metadata"]["labels"] == {
        "mine": "1",
        "volcano.sh/task-index": "1",
        "volcano.sh/job-name": "train",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/job-namespace": "ml",
        "volcano.sh/queue-name": "gold",
        "volcano.sh/preemptable": "true",
    }
    assert pod["metadata"]["annotations"] == {
        "note": "2",
        "volcano.sh/task-index": "1",
        "volcano.sh/task-spec": "worker",
        "scheduling.k8s.io/group-name": "train-u1",
        "volcano.sh/job-name": "train",
        "volcano.sh/queue-name": "gold",
        "volcano.sh/job-version": "4",
        "volcano.sh/template-uid": "train-worker",
        "volcano.sh/job-retry-count": "2",
        "volcano.sh/preemptable": "true",
        "volcano.sh/cooldown-time": "9s",
    }
    fresh = pod_of(job())["metadata"]["annotations"]
    assert (fresh["volcano.sh/job-version"], fresh["volcano.sh/job-retry-count"]) == ("0", "0")


def test_scheduler_and_class_of_the_job_hold_where_the_template_names_none() -> None:
    own = pod_of(job(task(pod={"schedulerName": "s", "priorityClassName": "p"}), priorityClassName="high"))
    assert (own["spec"]["schedulerName"], own["spec"]["priorityClassName"]) == ("s", "p")
    from_job = pod_of(job(priorityClassName="high"))["spec"]
    assert (from_job["schedulerName"], from_job["priorityClassName"]) == ("volcano", "high")
    assert "priorityClassName" not in pod_of(job())["spec"]


@pytest.mark.parametrize(
    "plugins",
    [tuple(p for p, on in zip(PLUGINS, bits, strict=True) if on) for bits in product((0, 1), repeat=3)],
)
def test_plugins_add_to_every_container_and_take_nothing(plugins: tuple[str, ...]) -> None:
    both = {
        "containers": [
            {"name": "a", "image": "i", "env": [{"name": "MINE", "value": "1"}]},
            {"name": "b", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        ],
        "initContainers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    made = job(task("my-task", 2, both), plugins={p: [] for p in plugins})
    spec = pod_of(made)["spec"]
    env = [("VK_TASK_INDEX", "1"), ("VC_TASK_INDEX", "1")] if "env" in plugins else []
    hosts = ["VC_MY_TASK_HOSTS", "VC_MY_TASK_NUM"] if "svc" in plugins else []
    mounts = [*(["/root/.ssh"] if "ssh" in plugins else []), *(["/etc/volcano"] if "svc" in plugins else [])]
    volumes = [*(["train-ssh"] if "ssh" in plugins else []), *(["train-svc"] if "svc" in plugins else [])]
    for field, first_env, first_mounts in (
        (spec["containers"][0], ["MINE"], []),
        (spec["containers"][1], [], ["/data"]),
        (spec["initContainers"][0], [], []),
    ):
        assert [e["name"] for e in field.get("env") or ()] == [*first_env, *(n for n, _ in env), *hosts]
        assert [
            (e["name"], e["value"]) for e in field.get("env") or () if e["name"].startswith(("VK", "VC_TASK"))
        ] == env
        assert [m["mountPath"] for m in field.get("volumeMounts") or ()] == [*first_mounts, *mounts]
        assert [m["name"] for m in field.get("volumeMounts") or () if m["name"] != "data"] == volumes
    assert [v["name"] for v in spec["volumes"]] == ["data", *volumes]
    assert (spec.get("hostname"), spec.get("subdomain")) == (
        ("train-my-task-1", "train") if "svc" in plugins else (None, None)
    )
    kinds = {
        "ssh": [("v1", "Secret", "train-ssh")],
        "svc": [
            ("v1", "ConfigMap", "train-svc"),
            ("v1", "Service", "train"),
            ("networking.k8s.io/v1", "NetworkPolicy", "train"),
        ],
    }
    helpers = helpers_of(made)
    assert [(h["apiVersion"], h["kind"], h["metadata"]["name"]) for h in helpers] == [
        k for p in ("ssh", "svc") if p in plugins for k in kinds[p]
    ]
    for helper in helpers:
        assert helper["metadata"]["namespace"] == "ml"
        assert [o["uid"] for o in helper["metadata"]["ownerReferences"]] == ["u1"]


def test_a_container_without_variables_or_mounts_gets_no_empty_ones() -> None:
    plain = pod_of(job(plugins={"svc": ["--inject-hosts-env=false"]}))["spec"]["containers"][0]
    assert "env" not in plain
    assert "volumeMounts" not in pod_of(job(plugins={"env": []}))["spec"]["containers"][0]
    assert "initContainers" not in pod_of(job(plugins={"env": []}))["spec"]


def test_variables_of_hosts_come_from_the_config_map() -> None:
    container = pod_of(job(task("w", 1), task("ps-0", 1), plugins={"svc": []}))["spec"]["containers"][0]
    names = ["VC_W_HOSTS", "VC_W_NUM", "VC_PS_0_HOSTS", "VC_PS_0_NUM"]
    assert container["env"] == [
        {"name": n, "valueFrom": {"configMapKeyRef": {"name": "train-svc", "key": n}}} for n in names
    ]


def test_the_key_of_ssh_is_its_owners_alone() -> None:
    spec = pod_of(job(plugins={"ssh": []}))["spec"]
    assert spec["containers"][0]["volumeMounts"] == [
        {"mountPath": "/root/.ssh", "subPath": ".ssh", "name": "train-ssh"}
    ]
    files = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
    assert spec["volumes"][-1]["secret"] == {
        "secretName": "train-ssh",
        "items": [{"key": f, "path": f".ssh/{f}"} for f in files],
        "defaultMode": 0o600,
    }
    (secret,) = helpers_of(job(task("w", 2), plugins={"ssh": []}))
    assert list(secret["data"]) == list(files)
    told = base64.b64decode(secret["data"]["config"]).decode().splitlines()
    assert told[:2] == ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    assert [line.split() for line in told[2:] if "Host" in line] == [
        ["Host", "train-w-0"],
        ["HostName", "train-w-0.train"],
        ["Host", "train-w-1"],
        ["HostName", "train-w-1.train"],
    ]


@pytest.mark.parametrize(
    ("pod", "replicas", "want"),
    [
        ({}, 2, ["train-w-a-0.train", "train-w-a-1.train"]),
        ({}, 0, []),
        ({"subdomain": "net"}, 1, ["train-w-a-0.net"]),
        ({"hostname": "h"}, 3, ["h.train"]),
        ({"hostname": "h", "subdomain": "net"}, 1, ["h.net"]),
        ({"hostname": "h"}, 0, []),
    ],
)
def test_hosts_of_a_task(pod: Obj, replicas: int, want: list[str]) -> None:
    found = hosts_of(job(task("w-a", replicas, pod), task("other", 1)))
    assert found["w_a.host"] == "\n".join(want)
    assert found["VC_W_A_HOSTS"] == ",".join(want)
    assert found["VC_W_A_NUM"] == str(len(want))
    assert found["other.host"] == "train-other-0.train"
    spec = pod_of(job(task("w-a", 1, pod), plugins={"svc": []}))["spec"]
    assert (spec["hostname"], spec["subdomain"]) == (
        pod.get("hostname", "train-w-a-1"),
        pod.get("subdomain", "train"),
    )


@pytest.mark.parametrize("said", ["", "=1", "=t", "=TRUE", "=true", "=false", "=0", "=no", None])
@pytest.mark.parametrize("dashes", ["-", "--"])
def test_flags_of_the_svc_plugin(said: str | None, dashes: str) -> None:
    is_on = said in ("", "=1", "=t", "=TRUE", "=true")

    def with_flag(name: str) -> VolcanoJob:
        return job(plugins={"svc": ["--first=x", *([] if said is None else [f"{dashes}{name}{said}"])]})

    def kinds(made: VolcanoJob) -> list[str]:
        return [h["kind"] for h in helpers_of(made)]

    assert ("NetworkPolicy" not in kinds(with_flag("disable-network-policy"))) is is_on
    service = helpers_of(with_flag("publish-not-ready-addresses"))[1]["spec"]
    assert service.get("publishNotReadyAddresses", False) is is_on
    env = pod_of(with_flag("inject-hosts-env"))["spec"]["containers"][0].get("env")
    assert bool(env) is (is_on or said is None)


def test_the_service_and_the_policy_select_the_jobs_pods() -> None:
    made = job(plugins={"svc": []})
    _, service, policy = helpers_of(made)
    ours = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "ml"}
    assert ours.items() <= pod_of(made)["metadata"]["labels"].items()
    assert service["spec"] == {"clusterIP": "None", "selector": ours}
    selector = {"matchLabels": ours}
    assert policy["spec"] == {
        "podSelector": selector,
        "ingress": [{"from": [{"podSelector": selector}]}],
        "policyTypes": ["Ingress"],
    }


@pytest.mark.parametrize("plugin", PLUGINS)
def test_more_hosts_than_an_object_takes(plugin: str) -> None:
    # `train-w-0.train`, twice: what each pod takes of the object that names them all.
    for name in ("w", "worker"):
        most = MOST_OBJECT_BYTES // (2 * len(f"train-{name}-0.train"))
        for replicas in (most, most + 1):
            found = has_too_many_hosts(job(task(name, replicas), plugins={plugin: []}))
            assert found is (plugin != "env" and replicas > most)
        both = job(task(name, most), task("v", most), plugins={plugin: []})
        assert has_too_many_hosts(both) is (plugin != "env")


# Its PodGroup


def test_the_group_bears_the_jobs_marks_and_what_its_pods_need() -> None:
    store = Store(seed=1, now_us=NOW)
    cpu = {"containers": [{"name": "m", "resources": {"requests": {"cpu": "2"}}}]}
    made = job(
        task("w", 3, cpu, minAvailable=2), queue="gold", priorityClassName="high", meta={"labels": {"a": "1"}}
    )
    group = new_group(store, made)
    assert group["metadata"]["labels"] == {"a": "1"}
    assert "annotations" not in group["metadata"]
    assert group["spec"] == {
        "minMember": 2,
        "minTaskMember": {"w": 2},
        "queue": "gold",
        "minResources": {"cpu": "4", "pods": "2"},
        "priorityClassName": "high",
    }
    assert "priorityClassName" not in new_group(store, job())["spec"]


@pytest.mark.parametrize("least", range(1, 8))
def test_the_most_important_tasks_count_first(least: int) -> None:
    """Each task's least first where the job's covers them all, else whole tasks by priority."""
    store = Store(seed=1, now_us=NOW)
    for name, value in (("low", 1), ("high", 9)):
        store.create(
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
        )

    def needs(resource: str, **pod: Any) -> Obj:
        return {"containers": [{"name": "m", "resources": {"requests": {resource: "1"}}}], **pod}

    made = job(
        task("low", 3, needs("x.io/low", priorityClassName="low"), minAvailable=2),
        task("high", 3, needs("x.io/high", priorityClassName="high"), minAvailable=1),
        task("none", 1, needs("x.io/none", priorityClassName="absent"), minAvailable=1),
        minAvailable=least,
    )
    found = min_resources(store, made)
    enough = ["high", "low", "low", "none", "high", "high", "low"]
    scarce = ["high", "high", "high", "low"]
    taken = (enough if least >= 4 else scarce)[:least]
    assert {n.removeprefix("x.io/"): v for n, v in found.items() if n.startswith("x.io/")} == {
        n: taken.count(n) for n in taken
    }
    assert found["pods"] == least


# Queues, and who looks at what


def queue(store: Store, state: str | None) -> Key:
    store.create({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}})
    key = Key(queues.QUEUE, "", "q")
    if state is not None:
        store.set_status(key, {"state": state, "kept": 1})
    return key


@pytest.mark.parametrize("state", [None, "Open", "Closing", "Closed", "Unknown"])
@pytest.mark.parametrize("used_by", [None, "q", "another"])
def test_a_queue_closes_with_its_last_group(state: str | None, used_by: str | None) -> None:
    store = Store(seed=1, now_us=NOW)
    key = queue(store, state)
    if used_by is not None:
        store.create(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": "g", "namespace": "ml"},
                "spec": {"queue": used_by},
            }
        )
    found = queues.reconcile(store, key, NOW)
    if state is None:
        want: Any = [{"state": "Open"}]
    elif state == "Closing" and used_by != "q":
        want = [{"state": "Closed", "kept": 1}]
    else:
        want = []
    assert [a.status for a in found.actions if isinstance(a, SetStatus)] == want
    assert len(found.actions) == len(want)
    assert queues.reconcile(store, Key(queues.QUEUE, "", "gone"), NOW).actions == ()


def test_a_group_without_a_queue_is_of_the_default_one() -> None:
    group: Obj = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ml"},
        "spec": {},
    }
    key = Key("PodGroup.scheduling.volcano.sh", "ml", "g")
    store = Store(seed=1, now_us=NOW)
    assert queues.changed_keys(store, Change(1, DELETED, key, group, None)) == (
        Key(queues.QUEUE, "", "default"),
    )
    named = {**group, "spec": {"queue": "q"}}
    assert queues.changed_keys(store, Change(1, DELETED, key, named, None)) == (Key(queues.QUEUE, "", "q"),)
    for kind in (ADDED, MODIFIED):
        assert not queues.changed_keys(store, Change(1, kind, key, named, None))


def test_each_change_is_looked_at_by_those_it_concerns() -> None:
    store = Store(seed=1, now_us=NOW)
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "u1",
        "controller": True,
    }

    def asked(kind: str, gk: str, obj: Obj) -> list[tuple[str, str]]:
        meta = obj["metadata"]
        found = controllers.affected(
            store, Change(1, kind, Key(gk, meta.get("namespace", ""), meta["name"]), obj, None)
        )
        return [(c.name, k.name) for c, k in found]

    def pod(scheduler: str, **meta: Any) -> Obj:
        return {"metadata": {"name": "p", "namespace": "ml", **meta}, "spec": {"schedulerName": scheduler}}

    assert asked(MODIFIED, "Pod", pod("default-scheduler", ownerReferences=[owner])) == []
    assert asked(MODIFIED, "Pod", pod("volcano")) == [("vc-podgroup-controller", "p")]
    grouped = {"scheduling.k8s.io/group-name": "g"}
    mine = pod("volcano", ownerReferences=[owner], annotations=grouped)
    assert asked(MODIFIED, "Pod", mine) == [("vc-job-controller", "train")]
    assert asked(DELETED, "Pod", pod("volcano")) == []
    group = {"metadata": {"name": "g", "namespace": "ml", "ownerReferences": [owner]}, "spec": {}}
    gk = "PodGroup.scheduling.volcano.sh"
    assert asked(ADDED, gk, group) == []
    assert asked(MODIFIED, gk, group) == [("vc-job-controller", "train")]
    assert asked(DELETED, gk, group) == [("vc-job-controller", "train"), ("vc-queue-controller", "default")]
    lone: Obj = {"metadata": {"name": "q"}}
    assert asked(ADDED, queues.QUEUE, lone) == [("vc-queue-controller", "q")]
    assert asked(DELETED, queues.QUEUE, lone) == []
    train: Obj = {"metadata": {"name": "train", "namespace": "ml"}}
    assert asked(ADDED, "Job.batch.volcano.sh", train) == [("vc-job-controller", "train")]
    assert asked(DELETED, "Job.batch.volcano.sh", train) == []
    assert asked(ADDED, "Node", {"metadata": {"name": "n"}}) == []
    assert podgroups.CONTROLLER in controllers.CONTROLLERS
