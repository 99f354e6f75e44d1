"""Behaviour: annotations, plain commands, defaults."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from fairway.kube.timestamps import HOUR_US, MINUTE_US, SECOND_US
from fairway.twin.behaviour import BehaviourError, behaviour_of, problems, said, using
from fairway.twin.commands import CommandRun, understand
from fairway.twin.distributions import constant

COMMANDS: dict[str, tuple[list[str], CommandRun | None]] = {
    "sleep": (["sleep", "600"], CommandRun(600 * SECOND_US, 0)),
    "sleep with units": (["/bin/sleep", "1h", "30m"], CommandRun(90 * MINUTE_US, 0)),
    "sleep for ever": (["sleep", "infinity"], CommandRun(None, 0)),
    "true and false": (["false"], CommandRun(0, 1)),
    "exit in a shell": (["sh", "-c", "exit 3"], CommandRun(0, 3)),
    "one after another": (["sh", "-c", "echo hi; sleep 5; exit 1"], CommandRun(5 * SECOND_US, 1)),
    "and": (["bash", "-c", "false && sleep 9"], CommandRun(0, 1)),
    "or": (["bash", "-c", "false || sleep 9"], CommandRun(9 * SECOND_US, 0)),
    "stop on error": (["sh", "-ec", "sleep 2; false; sleep 9"], CommandRun(2 * SECOND_US, 1)),
    "go on after an error": (["sh", "-c", "false; sleep 2"], CommandRun(2 * SECOND_US, 0)),
    "an endless loop": (["sh", "-c", "while true; do sleep 1; done"], CommandRun(None, 0)),
    "tail": (["tail", "-f", "/dev/null"], CommandRun(None, 0)),
    "a real program": (["python", "train.py"], None),
    "a real program in a shell": (["sh", "-c", "sleep 3 && python train.py"], None),
    "nonsense": (["sleep", "well"], None),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name: str) -> None:
    argv, want = COMMANDS[name]
    assert understand(tuple(argv)) == want


def of(annotations: dict[str, str], policy: str = "Never", **container: Any) -> Any:
    return behaviour_of({"name": "main", **container}, policy, said(annotations))


def test_defaults_depend_on_the_restart_policy() -> None:
    assert of({}).run == constant(MINUTE_US) and of({}).is_default
    assert of({}, "Always").run is None


def test_general_annotations_speak_for_main_containers_only() -> None:
    words = said({"fairway.dev/run-time": "1h", "fairway.dev/run-time.fetch": "2m"})
    assert behaviour_of({"name": "wait"}, "Never", words, is_init=True).run == constant(SECOND_US)
    assert behaviour_of({"name": "fetch"}, "Never", words, is_init=True).run == constant(2 * MINUTE_US)
    assert behaviour_of({"name": "proxy"}, "Always", words, is_init=True).run is None
    assert behaviour_of({"name": "main"}, "Never", words).run == constant(HOUR_US)


def test_command_and_annotation_together() -> None:
    made = of({"fairway.dev/exit-code": "2"}, command=["sleep"], args=["5"])
    assert (made.run, made.exit_code(0), made.stop_us) == (constant(5 * SECOND_US), 2, None)


def test_other_names_stand_for_ours() -> None:
    made = of({"rec/seconds": "12", "rec/exit": "3"})
    assert (made.run, made.exit_codes) == (constant(12 * SECOND_US), (3,))


def test_everything_that_can_be_said() -> None:
    made = of(
        {
            "fairway.dev/run-time": "forever",
            "fairway.dev/startup-time": "uniform(1s, 2s)",
            "fairway.dev/stop-time": "never",
            "fairway.dev/stop-exit-code": "0",
            "fairway.dev/checkpoint-interval": "10m",
            "fairway.dev/checkpoint-time": "20s",
            "fairway.dev/restore-time": "1m",
            "fairway.dev/readiness-fails": "5m-6m,1h-,5m30s-7m",
            "fairway.dev/gpu-utilization": "5m:90%,0s:10%",
            "fairway.dev/gpu-memory": "40Gi",
        }
    )
    assert made.run is None and made.stop_us is None and made.stop_exit_code == 0
    assert made.readiness_fails[0] == (5 * MINUTE_US, 7 * MINUTE_US)
    assert made.readiness_fails[1][0] == HOUR_US
    assert made.gpu_utilization_milli == ((0, 100), (5 * MINUTE_US, 900))
    assert made.gpu_memory_bytes == ((0, 40 * 2**30),)


WRONG = {
    "fairway.dev/run-time": "soon",
    "fairway.dev/exit-code": "256",
    "fairway.dev/readiness-fails": "5m",
    "fairway.dev/liveness-fails": "6m-5m",
    "fairway.dev/gpu-utilization": "140%",
    "fairway.dev/gpu-memory": "lots",
    "fairway.dev/checkpoint-interval": "often",
}


@pytest.mark.parametrize("name", WRONG)
def test_what_makes_no_sense_is_said(name: str) -> None:
    with pytest.raises(BehaviourError) as caught:
        of({name: WRONG[name]})
    assert (caught.value.annotation, caught.value.value) == (name, WRONG[name])
    assert problems({name: WRONG[name]})[0].annotation == name


def test_unknown_keys_are_problems_and_others_are_not_ours() -> None:
    assert [p.annotation for p in problems({"fairway.dev/runtime": "5s", "example.com/x": "y"})] == [
        "fairway.dev/runtime"
    ]
    assert problems({"fairway.dev/run-time.main": "5s"}) == []
    others = "queue cost-center owner gpu-share gpu-index gpu-model gpu-instances numa-nodes cpus weights"
    assert problems({f"fairway.dev/{key}": "x" for key in others.split()}) == []
    theirs = {"rec/seconds": "5", "rec/exit": "3", "kwok.x-k8s.io/usage-cpu": "2"}
    theirs |= {"kwok.x-k8s.io/usage-memory": "1Gi"}
    assert problems(theirs) == []
    assert sorted(p.annotation for p in problems(dict.fromkeys(theirs, "x!"))) == sorted(theirs)


def test_the_same_container_with_another_use_keeps_everything_else() -> None:
    """A field that is added to the class and forgotten in the copy is found here, compiled or not."""
    text = (Path(__file__).parents[2] / "src/fairway/twin/behaviour.py").read_text()
    one = next(c for c in ast.parse(text).body if isinstance(c, ast.ClassDef) and c.name == "Behaviour")
    names = [a.target for a in one.body if isinstance(a, ast.AnnAssign)]
    fields = [name.id for name in names if isinstance(name, ast.Name)]
    assert len(fields) > 20
    assert [name for name in fields if f"other.{name}" not in text] == []
    notes = {
        "run-time": "5m",
        "exit-code": "3",
        "startup-time": "4s",
        "out-of-memory-after": "2m",
        "stop-time": "9s",
        "stop-exit-code": "7",
        "checkpoint-interval": "1m",
        "checkpoint-time": "2s",
        "restore-time": "3s",
        "checkpoint-key": "k",
        **dict.fromkeys(("readiness-fails", "liveness-fails", "startup-fails", "image-pull-fails"), "1s-2s"),
        "gpu-utilization": "90%",
        "gpu-memory": "1Gi",
        "gpu-activity": "serving",
        "step-time": "800ms",
        "step-traffic": "all_reduce=1Gi",
        "image-pull-time": "4s",
        "cpu-usage": "1",
        "memory-usage": "2Gi",
    }
    words = said({f"fairway.dev/{name}": value for name, value in notes.items()})
    marked = behaviour_of({"name": "main", "resources": {"limits": {"memory": "1Gi"}}}, "Never", words)
    plain = behaviour_of({"name": "main"}, "Never", ())
    assert [name for name in fields if getattr(marked, name) == getattr(plain, name)] == []
    copy = using(marked, ((0, 5),), ((0, 6),))
    for name in fields:
        wanted = {"cpu_milli": ((0, 5),), "memory_bytes": ((0, 6),)}.get(name, getattr(marked, name))
        assert getattr(copy, name) == wanted, name
