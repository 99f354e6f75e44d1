"""A kept history, played: what the recorder of the cluster itself wrote down, and nothing damaged stops a reader."""

from __future__ import annotations

import random
import struct
import zlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.apiserver.history import BUDGET_BYTES, History
from fairway.apiserver.historyfiles import FOLDER, HEADER, MAGIC, contents, file_name
from fairway.cluster.store import Store
from fairway.errors import UserError
from fairway.ground.recorded import Recorded
from fairway.kube.timestamps import HOUR_US, MINUTE_US
from fairway.recorder.recorder import Recorder
from fairway.recorder.tables import Outcome, PodRow, Table
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario
from fairway.twin.twin import EPOCH_US, Twin

ROOT = Path(__file__).parents[2]
# What no object says: what autoscalers and model servers did, and what came over machines that were never nodes.
OF_PARTS = ("scalings", "services", "breaks", "events")


def recorded(data: Path) -> Recorded:
    return Recorded(lambda: contents(data / FOLDER))


def kept_twin(example: str, data: Path, hours: int, *, budget: int = BUDGET_BYTES, restarts: int = 0) -> Twin:
    """A scenario's twin whose history is kept, in writings as a journal makes them. Where it is restarted the old
    follower hears no more."""
    twin = build_twin(load_scenario(ROOT / "examples" / example))
    data.mkdir(exist_ok=True)
    began_us = twin.now_us
    history = _following(twin, data, budget)
    for minute in range(0, 60 * hours, 10):
        if restarts and minute and minute % (60 * hours // (restarts + 1)) == 0:
            twin.store.followers.remove(history)
            history.write(history.take())
            history.close()
            history = _following(twin, data, budget)
        twin.run(began_us + (minute + 10) * MINUTE_US)
        history.write(history.take())
    history.close()
    return twin


def _following(twin: Twin, data: Path, budget: int) -> History:
    history = History(data, budget)
    history.begin(twin.store)
    history.launched = twin.host.launches.launched_us
    return history


def said(outcome: Outcome) -> dict[str, Any]:
    found = {f.name: getattr(outcome, f.name) for f in fields(Outcome) if f.name not in OF_PARTS}
    found["queues"] = {f.name: getattr(outcome.queues, f.name) for f in fields(type(outcome.queues))}
    return {name: _plain(value) for name, value in found.items()}


def _plain(value: Any) -> Any:
    """Who preempted whom is said by events, which a simulated cluster keeps out of its store."""
    if isinstance(value, Table):
        return [replace(row, preempted_by="") if isinstance(row, PodRow) else row for row in value]
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    ("example", "hours"),
    [("01-two-teams", 8), ("05-node-failure-checkpoints", 8), ("09-night-borrowing", 12), ("06-load-130", 6)],
)
def test_a_history_says_what_the_recorder_of_the_cluster_says(
    example: str, hours: int, tmp_path: Path
) -> None:
    twin = kept_twin(example, tmp_path, hours)
    own = twin.component("recorder")
    assert isinstance(own, Recorder)
    found, notes = recorded(tmp_path).outcome(twin.now_us)
    expected = said(own.outcome())
    assert notes == () and len(found.pods) > 1
    assert {name: value for name, value in said(found).items() if value != expected[name]} == {}


def test_restarts_go_on_with_the_same_history(tmp_path: Path) -> None:
    once = kept_twin("01-two-teams", tmp_path / "once", 8)
    kept_twin("01-two-teams", tmp_path / "often", 8, restarts=5)
    assert len(list(contents(tmp_path / "often" / FOLDER))) == 6
    first, often = (recorded(tmp_path / name).outcome(once.now_us) for name in ("once", "often"))
    assert said(first[0]) == said(often[0]) and often[1] == ()


def test_an_earlier_moment_is_as_it_was(tmp_path: Path) -> None:
    twin = kept_twin("01-two-teams", tmp_path, 8)
    past = recorded(tmp_path)
    late, _ = past.outcome(twin.now_us)
    half = build_twin(load_scenario(ROOT / "examples/01-two-teams"))
    half.run(half.now_us + 2 * HOUR_US + MINUTE_US)
    early, _ = past.outcome(half.now_us)
    own = half.component("recorder")
    assert isinstance(own, Recorder)
    assert said(early) == said(own.outcome()) != said(late)
    assert {o["metadata"]["uid"] for o in past.objects(half.now_us) if o["kind"] == "Pod"} == {
        o["metadata"]["uid"] for o in half.store.objects("Pod")
    }
    for wrong in ("9h", "2025-12-31T00:00:00Z", "soon"):
        with pytest.raises(UserError, match=r"--at "):
            past.until(wrong, twin.now_us)


def test_a_full_folder_loses_its_oldest_files_and_says_so(tmp_path: Path) -> None:
    budget = 350_000
    twin = kept_twin("06-load-130", tmp_path, 30, budget=budget)
    files = sorted((tmp_path / FOLDER).iterdir())
    assert sum(f.stat().st_size for f in files) <= budget and len(files) > 1
    assert files[0].name != file_name(1)
    found, notes = recorded(tmp_path).outcome(twin.now_us)
    assert len(notes) == 1 and "is not kept any more" in notes[0]
    own = twin.component("recorder")
    assert isinstance(own, Recorder)
    running = [p.name for p in own.outcome().pods if p.phase == "Running"]
    assert running and sorted(p.name for p in found.pods if p.phase == "Running") == sorted(running)


def test_wherever_the_process_is_killed_what_was_written_is_read(tmp_path: Path) -> None:
    twin = kept_twin("01-two-teams", tmp_path / "whole", 4)
    (name, whole), *_ = contents(tmp_path / "whole" / FOLDER)
    draw, counts = random.Random(17), []
    for end in sorted(draw.randrange(len(whole) + 1) for _ in range(12)):
        past = Recorded(lambda end=end: [(name, whole[:end])])  # type: ignore[misc]
        found, notes = past.outcome(twin.now_us)
        assert notes == ()
        counts.append(len(found.pods) if past.exists() else 0)
    assert counts == sorted(counts) and counts[-1] > 0


def test_a_damaged_file_is_said_and_the_next_one_makes_it_good(tmp_path: Path) -> None:
    twin = kept_twin("01-two-teams", tmp_path, 8, restarts=3)
    files = list(contents(tmp_path / FOLDER))
    whole, _ = Recorded(lambda: files).outcome(twin.now_us)
    draw = random.Random(5)
    for _ in range(12):
        number = draw.randrange(len(files) - 1)
        name, data = files[number]
        at = draw.randrange(len(MAGIC) + HEADER.size, len(data))
        broken = data[:at] + bytes([data[at] ^ (1 + draw.randrange(255))]) + data[at + 1 :]
        damaged = [*files[:number], (name, broken), *files[number + 1 :]]
        found, notes = Recorded(lambda damaged=damaged: damaged).outcome(twin.now_us)  # type: ignore[misc]
        # A length that says more than there is reads as a file that ends there.
        assert all(f"{FOLDER}/{name} is damaged at byte" in note for note in notes) and len(notes) <= 1
        assert _last(found) == _last(whole)


def _last(outcome: Outcome) -> dict[str, str]:
    """The phases of the pods that are there at the end."""
    return {pod.uid: pod.phase for pod in outcome.pods if pod.deleted_us is None}


def frame(text: bytes, packer: Any) -> bytes:
    packed = packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)
    return HEADER.pack(len(packed), zlib.crc32(packed)) + packed


def hostile(*lines: Any) -> bytes:
    text = b"".join((x if isinstance(x, bytes) else msgspec.json.encode(x)) + b"\n" for x in lines)
    return MAGIC + frame(text, zlib.compressobj())


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "a", "uid": "u", "creationTimestamp": "2026-01-05T00:00:00Z"},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]},
}
BEGUN = ["had", EPOCH_US]
KEY = ["Pod", "a", "p"]
LATER = EPOCH_US + 1
HOSTILE: list[tuple[bytes, str]] = [
    (b"", ""),
    (MAGIC[:5], ""),
    (b"SQLite format 3\0", "no history of this version"),
    (MAGIC + struct.pack("<II", 2**32 - 1, 0), ""),
    (MAGIC + HEADER.pack(3, zlib.crc32(b"abc")) + b"abc", "is damaged at byte"),
    (hostile(b"[1"), "is damaged at byte"),
    (hostile(b"{}"), "is damaged at byte"),
    (hostile(b"[" * 50_000), "is damaged at byte"),
    (hostile(b" " * 9_000_000), "more than any server writes"),
    (hostile([]), "is damaged at byte"),
    (hostile(["have", POD]), ""),
    (hostile(["have", None], BEGUN), "1 lines"),
    (hostile(["have", {**POD, "spec": 7}], BEGUN), "1 lines"),
    (hostile(["had", 2**70]), "1 lines"),
    (hostile(["had", True]), "1 lines"),
    (hostile(["had", -1]), "1 lines"),
    (hostile(BEGUN, ["+", LATER, {"kind": "Pod"}, None]), "1 lines"),
    (hostile(BEGUN, ["+", LATER, {**POD, "metadata": {"name": "p", "uid": 5}}, None]), "1 lines"),
    (hostile(BEGUN, ["+", LATER, {**POD, "metadata": []}, "x"], ["what", LATER]), "1 lines"),
    (hostile(BEGUN, ["~", LATER, KEY, {"status": {}}]), "1 lines"),
    (hostile(BEGUN, ["~", LATER], ["-", LATER], ["said", LATER], ["preempted", LATER]), "4 lines"),
    (hostile(BEGUN, ["said", LATER, "a", "b", "c", "d"]), "1 lines"),
    (hostile(["have", POD], BEGUN, ["~", LATER, KEY, {"metadata": None}]), "1 lines"),
    (hostile(["have", POD], BEGUN, ["~", LATER, KEY, {"status": {"conditions": [7], "phase": []}}]), ""),
    (hostile(["have", POD], BEGUN, ["+", 1, POD, None], ["-", 2, KEY]), ""),
]


@pytest.mark.parametrize(("data", "why"), HOSTILE, ids=range(len(HOSTILE)))
def test_no_file_stops_a_reader(data: bytes, why: str) -> None:
    after = hostile(["have", POD], ["had", EPOCH_US + HOUR_US])
    for files in ([(file_name(1), data)], [(file_name(1), data), (file_name(2), after)]):
        past = Recorded(lambda files=files: files)  # type: ignore[misc]
        found, notes = past.outcome(EPOCH_US + 2 * HOUR_US)
        assert (why in " ".join(notes)) if why else not notes
        # The next file says what is there, whatever the first said.
        assert len(files) == 1 or [p.name for p in found.pods if p.deleted_us is None] == ["p"]


def test_what_nobody_reads_is_not_kept(tmp_path: Path) -> None:
    store = Store(now_us=EPOCH_US)
    history = History(tmp_path)
    history.begin(store)
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-05T00:00:00Z"}
    node = store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {}})
    store.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "dg=="}})
    long = {**POD, "spec": {"containers": [{"name": "c", "args": ["x" * 100_000], "env": []}]}}
    store.create(long)
    history.write(history.take())
    (file,) = (tmp_path / FOLDER).iterdir()
    assert file.stat().st_mode & 0o077 == 0 and file.parent.stat().st_mode & 0o077 == 0
    store.set_status(_key(node), {"conditions": [beat]})
    history.write(history.take())
    size = file.stat().st_size
    assert size < 2_000
    for minute in range(5):
        store.set_status(
            _key(node), {"conditions": [{**beat, "lastHeartbeatTime": f"2026-01-05T00:0{minute}:30Z"}]}
        )
    for number in range(50):
        store.patch(_key(long), {"metadata": {"annotations": {"note": str(number)}}})
    mark = store.mark()
    store.delete(_key(long))
    store.rewind(mark)
    history.write(history.take())
    assert file.stat().st_size == size
    names = [(o["kind"], o["metadata"]["name"]) for o in recorded(tmp_path).objects(EPOCH_US)]
    assert sorted(names) == [("Node", "n"), ("Pod", "p")]


def _key(obj: Any) -> Any:
    from fairway.kube.objects import key_of

    return key_of(obj)
