"""What is taken where nobody says otherwise, and small functions of a twin: whole tables, both sides of bounds."""

from __future__ import annotations

from dataclasses import asdict, replace
from random import Random
from typing import Any

import pytest

from fairway.kube.metricfamilies import GAUGE, HISTOGRAM, SUMMARY, Family, Observed, Sample
from fairway.kube.objects import Obj
from fairway.scheduling.profile import DEFAULT_PROFILE
from fairway.twin import behaviour as b
from fairway.twin.behaviour import Behaviour, BehaviourError, behaviour_of, limited, problems, said, using
from fairway.twin.commands import CommandRun, understand
from fairway.twin.distributions import ZERO, Distribution, constant, parse_distribution
from fairway.twin.heartbeats import Heartbeats, last_renewal_us
from fairway.twin.latency import DEFAULT, NONE
from fairway.twin.progress import Progress, Totals, Work, identity_of, wall_us, work_after
from fairway.twin.standard import standard_components
from fairway.twin.streams import Streams, seed_of
from fairway.twin.tally import Tally

S, M = 1_000_000, 60_000_000

TIMES = {
    "api_write": ("constant", 5_000, 0.0),
    "watch": ("constant", 5_000, 0.0),
    "scheduler_cycle": ("constant", 1_300, 0.0),
    "kueue_cycle": ("constant", 5_000, 0.0),
    "controller_reconcile": ("constant", 10_000, 0.0),
    "kubelet_sync": ("constant", 50_000, 0.0),
    "sandbox_start": ("uniform", 400_000, 1_000_000),
    "image_pull": ("lognormal", 20_000_000, 0.8),
    "image_check": ("constant", 300_000, 0.0),
    "volume_provision": ("uniform", 2_000_000, 5_000_000),
    "container_start": ("uniform", 200_000, 500_000),
    "container_relist": ("uniform", 0, 1_000_000),
    "pod_teardown": ("constant", 300_000, 0.0),
}
DEADLINES = {
    "lease_renew_interval_us": 10 * S,
    "node_monitor_period_us": 5 * S,
    "node_monitor_grace_period_us": 50 * S,
    "node_startup_grace_period_us": 60 * S,
    "node_eviction_rate_milli": 100,
    "secondary_node_eviction_rate_milli": 10,
    "large_cluster_size_threshold": 50,
    "unhealthy_zone_threshold_milli": 550,
    "default_toleration_us": 300 * S,
    "pod_gc_period_us": 20 * S,
    "pod_gc_quarantine_us": 40 * S,
    "terminated_pod_gc_threshold": 12_500,
    "container_backoff_us": 10 * S,
    "container_backoff_max_us": 300 * S,
}
RATES = {
    "controller_qps": 20,
    "controller_burst": 30,
    "scheduler_qps": 50,
    "scheduler_burst": 100,
    "kueue_qps": 300,
    "kueue_burst": 500,
}


def test_what_a_cluster_takes() -> None:
    assert asdict(DEFAULT) == {**TIMES, **DEADLINES, **RATES}
    assert asdict(NONE) == {**dict.fromkeys(TIMES, tuple(ZERO)), **DEADLINES, **dict.fromkeys(RATES, 0)}


def test_what_every_cluster_runs() -> None:
    always = [
        *("faults", "kubelet", "nvidia-dra-driver", "compute-domain-controller", "gpu-operator"),
        *("gpu-partitioner", "gpu-health", "hami-device-plugin", "node-controller"),
        *("taint-eviction-controller", "pod-garbage-collector", "garbage-collector"),
        *("persistentvolume-controller", "device-taint-eviction"),
    ]
    controllers = [
        *("kube-controller-manager", "resource-claim-controller", "vc-controller-manager", "knative-serving"),
    ]
    last = ["autoscaling", "kueue", "default-scheduler", "volcano", "prometheus"]
    gangs = replace(DEFAULT_PROFILE, permits=frozenset({"Coscheduling", "GangScheduling"}))
    native = replace(DEFAULT_PROFILE, scheduler_name="native", permits=frozenset({"GangScheduling"}))

    def names(*asked: Any, **more: Any) -> list[str]:
        return [c.name for c in standard_components(*asked, **more)]

    assert names(controllers=()) == [*always, *last]
    assert names() == names((native,)) == [*always, *controllers, "analysis-runs", *last]
    for profiles in ((gangs,), (native, gangs), (gangs, native), iter((gangs,))):
        assert names(profiles) == [
            *always,
            *controllers,
            "scheduler-plugins-controller",
            "analysis-runs",
            *last,
        ]
    assert names((gangs,), ()) == [*always, *last]


SAID: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "run-time": ({"run-time": "uniform(1s, 3s)"}, {"run": Distribution("uniform", S, 3 * S)}),
    "for ever": ({"run-time": " forever "}, {"run": None}),
    "exit-code": ({"exit-code": "1, 255,0"}, {"exit_codes": (1, 255, 0)}),
    "startup-time": ({"startup-time": "7s"}, {"startup": constant(7 * S)}),
    "out-of-memory-after": ({"out-of-memory-after": "2m"}, {"oom_after_us": 2 * M}),
    "stop-time": ({"stop-time": "3"}, {"stop_us": 3 * S}),
    "never": ({"stop-time": "never"}, {"stop_us": None}),
    "stop-exit-code": ({"stop-exit-code": "7,8"}, {"stop_exit_code": 7}),
    "checkpoints": (
        {"checkpoint-interval": "1m", "checkpoint-time": "2s", "restore-time": "3s", "checkpoint-key": "k"},
        {"checkpoint_interval_us": M, "checkpoint_us": 2 * S, "restore_us": 3 * S, "checkpoint_key": "k"},
    ),
    "probes": (
        {"readiness-fails": "1s-2s", "liveness-fails": "true", "startup-fails": "never"},
        {"readiness_fails": ((S, 2 * S),), "liveness_fails": ((0, 2**62),), "startup_fails": ()},
    ),
    "windows": (
        {"readiness-fails": "9s- ,-2s,1s-3s,3s-4s,6s-7s"},
        {"readiness_fails": ((0, 4 * S), (6 * S, 7 * S), (9 * S, 2**62))},
    ),
    "one in another": ({"readiness-fails": "1s-9s,2s-3s"}, {"readiness_fails": ((S, 9 * S),)}),
    "gpu-utilization": (
        {"gpu-utilization": "5m:90%,0s:10%"},
        {"gpu_utilization_milli": ((0, 100), (5 * M, 900))},
    ),
    "all of it": ({"gpu-utilization": "100%"}, {"gpu_utilization_milli": ((0, 1000),)}),
    "gpu-memory": ({"gpu-memory": "1Gi,1m:2Gi"}, {"gpu_memory_bytes": ((0, 2**30), (M, 2**31))}),
    "steps": (
        {"step-time": "800ms", "step-traffic": "all_reduce=1Gi, alltoall@8=2Ki"},
        {"step_us": 800_000, "step_traffic": (("all_reduce", 0, 2**30), ("alltoall", 8, 2048))},
    ),
    "usage": (
        {"cpu-usage": "500m,5m:3", "memory-usage": "2Gi"},
        {"cpu_milli": ((0, 500), (5 * M, 3000)), "memory_bytes": ((0, 2**31),)},
    ),
    "images": (
        {"image-pull-time": "4s", "image-pull-fails": "0s-5m"},
        {"image_pull": constant(4 * S), "image_pull_fails": ((0, 5 * M),)},
    ),
    "what others read": ({"serving": "slowdown=1.5", "queue": "x"}, {}),
}
FIELDS = [name for name in vars(Behaviour) if not name.startswith("_") and name != "exit_code"]


@pytest.mark.parametrize("name", SAID)
def test_what_annotations_say(name: str) -> None:
    """Each says what it says and nothing else."""
    notes, want = SAID[name]
    words = {f"fairway.dev/{key}": value for key, value in notes.items()}
    found = behaviour_of({"name": "c"}, "Always", said(words))
    silent = behaviour_of({"name": "c"}, "Always", ())
    assert {field: getattr(found, field) for field in FIELDS} == {
        **{field: getattr(silent, field) for field in FIELDS},
        **want,
    }
    assert problems(words) == []


WRONG = {
    "exit-code": ("256", "x", "-1"),
    "gpu-utilization": ("101%", "-1%", "much", "10%,5m:"),
    "readiness-fails": ("5m", "5m-5m", "6m-5m", "x-y"),
    "step-traffic": ("all_reduce", "all_reduce@1=1Gi", "all_reduce@x=1Gi", "sum=1Gi", "all_reduce=x"),
    "stop-time": ("soon",),
    "image-pull-time": ("uniform(3s, 1s)",),
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in WRONG.items() for value in values]
)
def test_what_says_nothing(key: str, value: str) -> None:
    name = f"fairway.dev/{key}"
    (found,) = problems({name: value})
    assert (found.annotation, found.value) == (name, value)
    with pytest.raises(BehaviourError) as caught:
        behaviour_of({"name": "c"}, "Never", said({name: value}))
    assert str(caught.value) == str(found)


def test_all_that_is_wrong_is_said() -> None:
    notes = {
        "fairway.dev/zzz": "1",
        "fairway.dev/aaa.c": "1",
        "fairway.dev/queue": "q",
        "other": "x",
        "rec/exit": "300",
    }
    notes |= {"fairway.dev/stop-time.c": "soon", "fairway.dev/run-time": "1m"}
    assert [(p.annotation, p.value) for p in problems(notes)] == [
        *(("fairway.dev/aaa.c", "1"), ("rec/exit", "300"), ("fairway.dev/stop-time.c", "soon")),
        ("fairway.dev/zzz", "1"),
    ]
    assert (
        f"expected one of fairway.dev/run-time, {b.PREFIX}exit-code"
        in problems({"fairway.dev/x": ""})[0].expected
    )


def test_a_container_is_held_to_its_limits() -> None:
    notes = said({"fairway.dev/cpu-usage": "500m,1m:3", "fairway.dev/memory-usage": "2Gi"})
    limits = {"limits": {"cpu": "2", "memory": "1Gi"}}
    found = behaviour_of({"name": "c", "resources": limits}, "Never", notes)
    assert (found.cpu_milli, found.memory_limit_bytes) == (((0, 500), (M, 2000)), 2**30)
    free = behaviour_of({"name": "c", "resources": {"limits": None}}, "Never", notes)
    assert (free.cpu_milli, free.memory_limit_bytes) == (((0, 500), (M, 3000)), 0)
    # Who says nothing of its use is not asked about limits.
    assert behaviour_of({"name": "c", "resources": limits}, "Never", ()).memory_limit_bytes == 0
    for other in (limited(found, 7), using(found, ((0, 1),), ((0, 2),))):
        changed = {f for f in FIELDS if getattr(other, f) != getattr(found, f)}
        assert changed == (
            {"memory_limit_bytes"} if other.memory_limit_bytes == 7 else {"cpu_milli", "memory_bytes"}
        )


def test_how_long_who_says_nothing_runs() -> None:
    def runs(policy: str, *, is_init: bool = False, **container: Any) -> tuple[Any, ...]:
        found = behaviour_of({"name": "c", **container}, policy, (), is_init=is_init)
        return found.run, found.exit_codes, found.stop_us, found.is_default

    assert runs("Never") == runs("OnFailure") == (constant(M), (0,), 0, True)
    assert runs("Never", is_init=True) == (constant(S), (0,), 0, False)
    assert runs("Always") == runs("Always", is_init=True) == (None, (0,), 0, False)
    assert runs("Always", command=["sleep", "5"]) == (constant(5 * S), (0,), None, False)
    assert runs("Never", command=["sh", "-c"], args=["exit 3"]) == (constant(0), (3,), None, False)
    assert runs("Never", command=["sleep", "inf"]) == (None, (0,), None, False)
    assert (
        runs("Never", args=["sleep", "5"])
        == runs("Never", command=["python"])
        == (constant(M), (0,), 0, True)
    )
    codes = Behaviour()
    codes.exit_codes = (1, 2)
    assert [codes.exit_code(attempt) for attempt in (0, 1, 2, 9)] == [1, 2, 2, 2]


COMMANDS = {
    "sleep 1.5": (1_500_000, 0),
    "sleep .5m 2": (32 * S, 0),
    "sleep 1d": (86_400 * S, 0),
    "sleep 3 inf": (None, 0),
    "sleep": None,
    "sleep x": None,
    "exit": (0, 0),
    "exit 7": (0, 7),
    "exit 256": (0, 0),
    "exit 1 2": None,
    "exit x": None,
    "tail -f /dev/null": (None, 0),
    "tail -f /x": None,
    "/bin/true": (0, 0),
    "false": (0, 1),
    "nvidia-smi -L": (0, 0),
    "sh": None,
    "sh x": None,
    "sh --c x": None,
    "sh -c": None,
    "bash -e -c false": (0, 1),
    "exec": None,
}
SCRIPTS = {
    "sleep 1; sleep 2": (3 * S, 0),
    "sleep 1\nsleep 2": (3 * S, 0),
    "# sleep 9\nsleep 2": (2 * S, 0),
    ";;": (0, 0),
    "true || sleep 9": (0, 0),
    "false || false": (0, 1),
    "true && sleep 2": (2 * S, 0),
    "false && x; true": (0, 0),
    "exec sleep 4; sleep 9": (4 * S, 0),
    "exit 2; sleep 9": (0, 2),
    "false; exit": (0, 1),
    "true; exit": (0, 0),
    "set -e; false; sleep 9": (0, 1),
    "set +e; false; sleep 9": (9 * S, 0),
    "set -x; false; sleep 9": (9 * S, 0),
    "set -x -e; false; sleep 9": (0, 1),
    "set -ex -u; false; sleep 9": (0, 1),
    "set e -x; false; sleep 9": (9 * S, 0),
    "set -e; false || sleep 2; sleep 3": (5 * S, 0),
    "set -e; false && true; sleep 3": (3 * S, 0),
    "sleep inf; exit 3": (None, 0),
    "while :; do x; done": (None, 0),
    "while x; do y; done": None,
    "sleep 'x": None,
    "''": None,
    "sleep 1 &&\nsleep 2": (3 * S, 0),
    "python x": None,
}


@pytest.mark.parametrize("text", COMMANDS)
def test_commands(text: str) -> None:
    want = COMMANDS[text]
    assert understand(tuple(text.split())) == (None if want is None else CommandRun(*want))


@pytest.mark.parametrize("text", SCRIPTS)
def test_scripts(text: str) -> None:
    want = SCRIPTS[text]
    assert understand(("/bin/sh", "-c", text)) == (None if want is None else CommandRun(*want))
    assert understand(()) is None


def test_the_last_lease_before_a_silence() -> None:
    found = [last_renewal_us(now, 10, 0.35) for now in (0, 2, 3, 4, 12, 13, 14)]
    assert found == [-7, -7, 3, 3, 3, 13, 13]
    assert [last_renewal_us(77, interval, 0.5) for interval in (0, -1, 1)] == [77, 77, 77]


def test_silence_is_told_once_and_so_is_the_return() -> None:
    beats, heard = Heartbeats(), list[tuple[str, int | None]]()
    beats.listen(lambda node, last_us: heard.append((node, last_us)))
    for last_us in (5, 6):
        beats.stop("n", last_us)
    beats.stop("m", 0)
    copied = beats.fork()
    for _ in range(2):
        beats.resume("n")
        beats.resume("m")
    copied.forget("n")
    copied.resume("n")
    assert heard == [("n", 5), ("m", 0), ("n", None), ("m", None)]
    assert (beats.silent, copied.silent) == ({}, {"m": 0})


def test_how_long_work_takes_and_what_was_achieved_when() -> None:
    assert [wall_us(work, 10, 2) for work in (0, 1, 10, 11, 20, 21)] == [0, 1, 10, 13, 22, 25]
    assert wall_us(15, 0, 2) == wall_us(15, 10, 0) == 15
    assert (wall_us(3, 1, 2), tuple(work_after(5, 1, 1))) == (7, (3, 2, 2))
    assert work_after(9, 0, 2) == work_after(9, -1, 2) == Work(9, 0, 0)
    achieved = {
        -3: (0, 0, 0),
        0: (0, 0, 0),
        9: (9, 0, 0),
        10: (10, 0, 0),
        11: (10, 0, 1),
        12: (10, 10, 2),
        23: (20, 10, 3),
    }
    assert {at: tuple(work_after(at, 10, 2)) for at in achieved} == achieved


def test_saved_work_is_taken_largest_first() -> None:
    progress = Progress()
    for saved in (5, 9, 0, -1, 7):
        progress.put_back("a", saved)
    assert progress.saved("a") == (5, 7, 9) and progress.saved("b") == ()
    fork = progress.fork()
    assert [progress.take("a") for _ in range(4)] == [9, 7, 5, 0]
    assert (progress.take("b"), progress.totals.resumed, progress.pools()) == (0, 3, {})
    assert (fork.pools(), fork.totals.resumed) == ({"a": (5, 7, 9)}, 0)
    progress.ran_before("a", 2)
    assert [progress.next_attempt(who) for who in ("a", "a", "b")] == [2, 3, 0]
    assert progress.fork().next_attempt("a") == 4


def test_accounts_of_work() -> None:
    totals = Totals()
    totals.add(5, 2, 1, 0)
    totals.add(10, 4, 3, 2000)
    assert totals == Totals(15, 6, 4, 0, 20_000, 8_000, 6_000, 0)


def test_whose_work_it_is() -> None:
    def pod(kind: str = "", index: str = "") -> Obj:
        owner = {"kind": kind, "uid": "u", "controller": True, "apiVersion": "v1", "name": "o"}
        notes = {"batch.kubernetes.io/job-completion-index": index} if index else {}
        meta = {"name": "p", "namespace": "n", "annotations": notes}
        return {"metadata": {**meta, "ownerReferences": [owner]} if kind else meta}

    assert identity_of(pod("Job", "3"), "c", "key") == "n/key/c"
    assert identity_of(pod(), "c", "") == "n/p/c"
    assert identity_of(pod("Job", "3"), "c", "") == "u/3/c"
    assert identity_of(pod("Job"), "c", "") == "u//c"
    assert identity_of(pod("StatefulSet"), "c", "") == "u/p/c"
    assert identity_of(pod("StatefulSet", "3"), "c", "") == "u/3/c"


def test_what_a_tally_counts_and_observes() -> None:
    families = {
        "count": Family("count", "counter", "", ("l",)),
        "level": Family("level", GAUGE, "", ("l",)),
        "took": Family("took", HISTOGRAM, "", (), (1.0, 2.0)),
        "long": Family("long", SUMMARY, "", ("l",)),
    }
    tally = Tally(families)
    tally.begin("count", "z")
    tally.add("count", "a", times=0)
    tally.take([Sample("count", ("a",), 2.0), Sample("level", ("x",), 3.0), Sample("level", ("x",), 1.0)])
    tally.take([Sample("took", (), value) for value in (0.5, 1.0, 1.5, 2.5)])
    tally.begin("count", "a")
    tally.add("count", "a")
    copied = tally.copy()
    tally.add("count", "z", times=5)
    tally.observe("took", 9.0)
    assert copied.samples() == [
        Sample("count", ("a",), 3.0),
        Sample("count", ("z",), 0.0),
        Sample("level", ("x",), 1.0),
    ]
    assert copied.observed() == [Observed("took", (), (2, 1, 1), 5.5, ())]
    assert tally.samples()[1].value == 5 and tally.observed()[0].counts == (2, 1, 2)
    for second, value in enumerate((4.0, 1.0, 3.0, 2.0), 1):
        tally.observe("long", value, "b", now_us=second * S)
    tally.observe("long", 7.0, "a", now_us=5 * S)
    of_a, of_b, _ = tally.observed(10 * M + 2 * S)
    assert of_a == Observed("long", ("a",), (1,), 7.0, tuple((q, 7.0) for q in (0.0, 0.5, 0.9, 0.99, 1.0)))
    # What was ten minutes ago is of the past.
    assert of_b == Observed(
        "long", ("b",), (4,), 10.0, ((0.0, 2.0), (0.5, 2.0), (0.9, 3.0), (0.99, 3.0), (1.0, 3.0))
    )


def test_what_texts_say_of_times() -> None:
    found = {
        "3s": constant(3 * S),
        3: constant(3 * S),
        0.5: constant(500_000),
        "constant( 2s )": constant(2 * S),
        "uniform(1s, 1s)": Distribution("uniform", S, S),
        "uniform(0s,3s)": Distribution("uniform", 0, 3 * S),
        "exponential(0s)": constant(0),
        "exponential(2s)": Distribution("exponential", 2 * S),
        "lognormal(0s, 0.5)": constant(0),
        "lognormal(5s, 0)": constant(5 * S),
        "lognormal(5s, 10)": Distribution("lognormal", 5 * S, 10.0),
    }
    assert {text: parse_distribution(text) for text in found} == found
    said = {"3s", "uniform(1s, 1s)", "exponential(2s)", "lognormal(5s, 10)"}
    assert {str(parse_distribution(text)) for text in said} == said
    for text in (
        "uniform(3s, 1s)",
        "lognormal(5s, 10.1)",
        "lognormal(5s, -0.1)",
        "lognormal(5s)",
        "constant(1s, 2s)",
    ):
        with pytest.raises(ValueError, match="expected a duration"):
            parse_distribution(text)
    with pytest.raises(ValueError, match="with LOW at most HIGH"):
        parse_distribution("uniform(3s, 1s)")
    with pytest.raises(ValueError, match="with SIGMA from 0 to 10"):
        parse_distribution("lognormal(5s, 11)")
    assert [constant(n).is_zero for n in (0, 1)] == [True, False]
    assert not Distribution("uniform", 0, S).is_zero


SEED_A = 331792777117255107363955215279949205482
DRAWN = (0.5597315745707206, 0.30538542208080166)
FOUR = (0.6168244736131213, 0.14141929625703342, 0.0028229953418408282, 0.46806272140689675)
VARYING = {
    "uniform(1s, 3s)": (
        [1_000_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000],
        [1_268_728, 2_694_867, 2_527_549],
    ),
    "exponential(10s)": (
        [0, 2_876_821, 6_931_472, 13_862_944, 276_310_432],
        [1_442_911, 18_801_563, 14_429_689],
    ),
    "lognormal(20s, 0.5)": (
        [593_624, 14_274_681, 20_000_000, 28_021_642, 673_828_568],
        [27_098_008, 19_858_250, 37_009_916],
    ),
}


def test_draws_are_what_they_were() -> None:
    """Numbers of a seed and a name: who changes them changes every recorded run."""
    streams = Streams(7)
    assert seed_of(7, "a") == SEED_A
    assert (streams.stream("a").random(), streams.draw_for("x", "y")) == DRAWN
    assert streams.draws_for("x", "y") == FOUR
    assert streams.stream("a") is streams.stream("a")
    for form, (quantiles, drawn) in VARYING.items():
        found = parse_distribution(form)
        assert [found.at_quantile(u) for u in (0.0, 0.25, 0.5, 0.75, 1.0)] == quantiles, form
        draw = found.sampler(Random(1))
        assert [draw() for _ in range(3)] == drawn, form
    untouched, other = Random(1), Random(1)
    assert [constant(5).sampler(untouched)() for _ in range(3)] == [5, 5, 5]
    assert untouched.random() == other.random()
