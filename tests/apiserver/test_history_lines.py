"""Every line of a cluster's history: what becomes of each change, how long files are, and what is left out of them."""

from __future__ import annotations

import json
import logging
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from fairway.apiserver import history as histories
from fairway.apiserver import historyfiles
from fairway.apiserver.history import Entry, History, There, is_kept
from fairway.cluster.changes import ADDED, DELETED, MODIFIED
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj

EVENT, POD, JOB, NODE = (
    Key("Event", "d", "e"),
    Key("Pod", "d", "p"),
    Key("Job.batch", "d", "j"),
    Key("Node", "", "n"),
)


def frames(path: Path) -> list[list[Any]]:
    """The lines of each frame, read without the reader."""
    data = path.read_bytes()
    magic = b"fairway history 1\n"
    assert data.startswith(magic)
    found, at, unpacker = [], len(magic), zlib.decompressobj()
    while at < len(data):
        length, checksum = struct.unpack_from("<II", data, at)
        chunk = data[at + 8 : at + 8 + length]
        assert len(chunk) == length and zlib.crc32(chunk) == checksum
        found.append([json.loads(line) for line in unpacker.decompress(chunk).splitlines()])
        at += 8 + length
    return found


def read(folder: Path) -> list[list[Any]]:
    return [
        line for path in sorted((folder / "history").iterdir()) for frame in frames(path) for line in frame
    ]


def written(folder: Path, *entries: Entry) -> list[list[Any]]:
    """What stands behind the beginning."""
    history = History(folder)
    history.write([There(0, []), *entries])
    history.close()
    first, *rest = read(folder)
    assert first[:2] == ["had", 0]
    return rest


def entry(type_: str, key: Key, obj: Obj, old: Obj | None = None, launched_us: int | None = None) -> Entry:
    return Entry(1, 7, type_, key, obj, old, launched_us)


def pod(spec: Obj | None = None, status: Obj | None = None, /, **meta: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "d", "resourceVersion": "9", "managedFields": [1], **meta},
        **({"spec": spec} if spec is not None else {}),
        **({"status": status} if status is not None else {}),
    }


def event(count: Any = None, **more: Any) -> Obj:
    return {
        "metadata": {"name": "e", "namespace": "d"},
        "type": "Normal",
        "reason": "R",
        **({} if count is None else {"count": count}),
        **more,
    }


def node(beat: str, status: str = "True", **more: Any) -> Obj:
    ready = {"type": "Ready", "status": status, "lastHeartbeatTime": beat}
    return {"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [ready, 5], **more}}


KEPT = {"name": "p", "namespace": "d"}


@pytest.mark.parametrize(
    ("change", "want"),
    [
        (
            entry(ADDED, POD, pod({"a": 1})),
            [["+", 7, {"apiVersion": "v1", "kind": "Pod", "metadata": KEPT, "spec": {"a": 1}}, None]],
        ),
        (entry(ADDED, NODE, {"metadata": {"name": "n"}}, None, 5), [["+", 7, {"metadata": {"name": "n"}}, 5]]),
        (entry(DELETED, POD, pod(), pod()), [["-", 7, ["Pod", "d", "p"]]]),
        (entry(MODIFIED, POD, pod({"a": 1}), pod({"a": 1})), []),
        (entry(MODIFIED, POD, pod(resourceVersion="1"), pod()), []),
        (entry(MODIFIED, POD, pod(annotations={"a": "b"}), pod()), []),
        (
            entry(MODIFIED, POD, pod({"a": 2}, {"x": 1}), pod({"a": 1}, {"x": 1})),
            [["~", 7, ["Pod", "d", "p"], {"spec": {"a": 2}}]],
        ),
        (entry(MODIFIED, POD, pod(), pod({"a": 1})), [["~", 7, ["Pod", "d", "p"], {"spec": None}]]),
        (
            entry(MODIFIED, POD, pod({"a": 1}, {"x": 1}), pod({"a": 1})),
            [["~", 7, ["Pod", "d", "p"], {"status": {"x": 1}}]],
        ),
        *(
            (
                entry(MODIFIED, POD, pod({"a": 1}, **{name: ["x"]}), pod({"a": 1})),
                [["~", 7, ["Pod", "d", "p"], {"metadata": {**KEPT, name: ["x"]}}]],
            )
            for name in ("labels", "deletionTimestamp", "ownerReferences", "finalizers")
        ),
        (entry(MODIFIED, NODE, node("2"), node("1")), []),
        (
            entry(MODIFIED, NODE, node("2", "False"), node("1")),
            [["~", 7, ["Node", "", "n"], {"status": node("2", "False")["status"]}]],
        ),
        (
            entry(MODIFIED, NODE, node("2", allocatable={"cpu": "1"}), node("1")),
            [["~", 7, ["Node", "", "n"], {"status": node("2", allocatable={"cpu": "1"})["status"]}]],
        ),
        (
            entry(MODIFIED, POD, {**node("2"), "kind": "Pod"}, {**node("1"), "kind": "Pod"}),
            [["~", 7, ["Pod", "d", "p"], {"status": node("2")["status"]}]],
        ),
        # Events are counted.
        (entry(ADDED, EVENT, event()), [["said", 7, "", "Normal", "R", 1]]),
        (entry(ADDED, EVENT, event(4, source={"component": "kubelet"})), [["said", 7, "kubelet", "Normal", "R", 4]]),
        (entry(ADDED, EVENT, event(reportingComponent="c")), [["said", 7, "c", "Normal", "R", 1]]),
        (entry(MODIFIED, EVENT, event(6), event(4)), [["said", 7, "", "Normal", "R", 2]]),
        (entry(MODIFIED, EVENT, event(4), event(4)), []),
        (entry(MODIFIED, EVENT, event(3), event(4)), []),
        (entry(MODIFIED, EVENT, event(2), event()), [["said", 7, "", "Normal", "R", 1]]),
        (entry(MODIFIED, EVENT, event(series={"count": 9}), event(4)), [["said", 7, "", "Normal", "R", 5]]),
        (entry(ADDED, EVENT, event("many")), [["said", 7, "", "Normal", "R", 1]]),
        (entry(DELETED, EVENT, event(5), event(5)), []),
        (
            entry(ADDED, EVENT, event(source={"component": "c" * 300}, type="t" * 300, reason="r" * 300)),
            [["said", 7, "c" * 253, "t" * 253, "r" * 253, 1]],
        ),
        (entry(ADDED, EVENT, event(type=None, reason=None)), [["said", 7, "", "", "", 1]]),
        (
            entry(
                ADDED,
                EVENT,
                event(reason="Preempted", involvedObject={"namespace": "d", "name": "p"}, message="m" * 2000),
            ),
            [["said", 7, "", "Normal", "Preempted", 1], ["preempted", 7, "d", "p", "m" * 1024]],
        ),
    ],
)  # fmt: skip
def test_what_becomes_of_a_change(change: Entry, want: list[Any], tmp_path: Path) -> None:
    assert written(tmp_path, change) == want


@pytest.mark.parametrize(
    ("length", "want"),
    [
        (16 * 1024, "whole"),
        (16 * 1024 + 1, "pruned"),
        (256 * 1024, "pruned"),
        (256 * 1024 + 1, "none"),
    ],
)
def test_what_is_long_loses_what_containers_read(
    length: int, want: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    read_by_containers = {
        "env": [1],
        "args": ["a"],
        "image": "i",
        "note": "x" * 1025,
        "short": "y" * 1024,
        "list": [{"command": ["c"], "n": 1}],
    }
    left = {"image": "i", "short": "y" * 1024, "list": [{"n": 1}]}
    # As long as is asked: before what is read by containers goes, or, of what is pruned, after.
    spec: Obj = {"containers": [read_by_containers if length <= 16 * 1024 + 1 else left], "pad": []}
    bare = {"spec": spec}
    pad = length - len(json.dumps(bare, separators=(",", ":"))) - 2
    spec["pad"] = ["z" * (1000 - 3) for _ in range(pad // 1000)]
    rest = length - len(json.dumps(bare, separators=(",", ":")))
    spec["pad"] = [*spec["pad"], "z" * (rest - 3)]
    assert len(json.dumps(bare, separators=(",", ":"))) == length
    with caplog.at_level(logging.WARNING, "fairway.apiserver"):
        found = written(tmp_path, entry(MODIFIED, POD, pod(spec), pod({})))
    if want == "none":
        assert found == [] and [r.getMessage() for r in caplog.records] == [
            f"{POD} is too long for the cluster's history"
        ]
        return
    kept = {**spec, "containers": [left]} if want == "pruned" else spec
    assert found == [["~", 7, ["Pod", "d", "p"], {"spec": kept}]] and not caplog.records


def test_which_kinds_are_kept() -> None:
    kept = (
        "Node",
        "Pod",
        "Job.batch",
        "Deployment.apps",
        "Workload.kueue.x-k8s.io",
        "NodeClaim.karpenter.sh",
    )
    assert all(map(is_kept, kept))
    assert not any(
        map(
            is_kept,
            ("Secret", "ConfigMap", "Event", "Service", "Workload.x-k8s.io", "Lease.coordination.k8s.io"),
        )
    )


def test_lines_are_packed_together_as_far_as_a_frame_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = len('["-",7,["Pod","d","p0000"]]\n')
    changes = [entry(DELETED, Key("Pod", "d", f"p{n:04}"), pod()) for n in range(1001)]
    for name in ("a", *map(str, (2 * line, 2 * line - 1, 3 * line, 1))):
        (tmp_path / name).mkdir()
    written(tmp_path / "a", *changes)
    assert [len(f) for f in frames(tmp_path / "a" / "history" / "00000001.log")] == [1, 500, 500, 1]
    for most, sizes in ((2 * line, [2, 2, 1]), (2 * line - 1, [1] * 5), (3 * line, [3, 2]), (1, [1] * 5)):
        monkeypatch.setattr(histories, "FRAME_BYTES", most)
        written(tmp_path / str(most), *changes[:5])
        assert [len(f) for f in frames(tmp_path / str(most) / "history" / "00000001.log")][1:] == sizes


def test_a_file_begins_with_all_that_is_there(tmp_path: Path) -> None:
    store = Store(now_us=5_000_000)
    for number in range(3):
        store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}})
    store.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "d"}})
    history = History(tmp_path)
    history.launched = lambda name: 3 if name == "n3" else None
    history.begin(store)
    history.write(history.take())
    store.now_us = 6_000_000
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n3"}})
    store.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t", "namespace": "d"}})
    store.delete(Key("Node", "", "n0"))
    history.write(history.take())
    assert history.take() == []
    history.close()
    found = read(tmp_path)
    assert [(line[0], line[1]["metadata"]["name"]) for line in found[:3]] == [
        ("have", f"n{n}") for n in range(3)
    ]
    assert all("resourceVersion" not in line[1]["metadata"] for line in found[:3])
    assert found[3] == ["had", 5_000_000]
    assert [line[:2] for line in found[4:]] == [["+", 6_000_000], ["-", 6_000_000]]
    assert (found[4][2]["metadata"]["name"], found[4][3], found[5][2]) == ("n3", 3, ["Node", "", "n0"])
    assert oct((tmp_path / "history").stat().st_mode & 0o777) == "0o700"
    assert oct((tmp_path / "history" / "00000001.log").stat().st_mode & 0o777) == "0o600"


def test_a_change_that_is_undone_is_not_told(tmp_path: Path) -> None:
    store = Store()
    history = History(tmp_path)
    history.begin(store)
    history.take()
    mark = store.mark()
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    store.rewind(mark)
    assert history.take() == []


def test_the_oldest_files_go_where_all_are_too_long(tmp_path: Path) -> None:
    """Sixteen parts of the budget, and never more than it; numbers go on."""
    store = Store()
    history = History(tmp_path, budget_bytes=16_000)
    history.begin(store)
    seen: list[list[str]] = []
    for number in range(400):
        meta = {"name": f"n{number}", "labels": {"random": str(7919 ** (5 + number % 7) * number % 10**18)}}
        store.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})
        store.delete(Key("Node", "", f"n{number}"))
        history.write(history.take())
        files = sorted((tmp_path / "history").iterdir())
        seen.append([f.stem.lstrip("0") for f in files])
        assert sum(f.stat().st_size for f in files) <= 16_000 + 300
    history.close()
    assert seen[0] == ["1"] and seen[-1][0] != "1"
    assert all([int(n) for n in s] == list(range(int(s[0]), int(s[-1]) + 1)) for s in seen)
    sizes = [f.stat().st_size for f in sorted((tmp_path / "history").iterdir())][:-1]
    assert sizes and all(1000 < size < 1300 for size in sizes)


@pytest.mark.parametrize("beside", [0, 1])
def test_no_more_of_the_oldest_files_go_than_must(tmp_path: Path, beside: int) -> None:
    """Room is made for as much as the new file may become."""
    alone = History(tmp_path / "alone", budget_bytes=1_600)
    (tmp_path / "alone").mkdir()
    alone.write([There(0, [])])
    alone.close()
    (first,) = (tmp_path / "alone" / "history").iterdir()
    room = histories._limit(1_600, first.stat().st_size)
    folder = tmp_path / "history"
    folder.mkdir()
    for number, size in ((1, 400), (2, 300), (3, 200)):
        (folder / histories.file_name(number)).write_bytes(bytes(size))
    history = History(tmp_path, budget_bytes=1_600)
    (folder / histories.file_name(3)).write_bytes(bytes(1_600 - room - 700 + beside))
    history.write([There(0, [])])
    history.close()
    left = [histories.number_of(path) for path in sorted(folder.iterdir())]
    assert left == ([2, 3, 4] if beside else [1, 2, 3, 4])


@pytest.mark.parametrize("failed", [OSError(28, "No space left on device"), ValueError("odd")])
def test_why_a_history_is_kept_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, failed: Exception
) -> None:
    def write(_file: int, _data: bytes) -> int:
        raise failed

    history = History(tmp_path)
    monkeypatch.setattr(os, "write", write)
    with caplog.at_level(logging.ERROR, "fairway.apiserver"):
        history.write([There(0, [])])
    why = "No space left on device" if isinstance(failed, OSError) else "ValueError: odd"
    folder = tmp_path / "history"
    assert [r.getMessage() for r in caplog.records] == [
        f"{folder}: the cluster's history is not kept any more: {why}"
    ]


def test_a_file_that_goes_while_they_are_read_is_passed_over(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / histories.file_name(number)).write_bytes(bytes((number,)))
    coming = historyfiles.contents(tmp_path)
    assert next(coming) == (histories.file_name(1), b"\x01")
    (tmp_path / histories.file_name(2)).unlink()
    assert list(coming) == [(histories.file_name(3), b"\x03")]


def test_after_a_full_file_all_that_is_there_is_told_once(tmp_path: Path) -> None:
    """The next file begins with it, behind what still belongs to the full one."""
    store = Store(now_us=4)
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"x": "y" * 500}}})
    history = History(tmp_path, budget_bytes=1)
    history.begin(store)
    history.write(history.take())
    assert history.take() == []
    for number in range(60):
        meta = {"name": f"m{number}", "labels": {"random": str(7919 ** (5 + number % 7) * number % 10**18)}}
        store.create({"apiVersion": "v1", "kind": "Node", "metadata": meta})
        store.delete(Key("Node", "", f"m{number}"))
    history.write(history.take())
    store.patch(Key("Node", "", "n"), {"metadata": {"labels": {"x": "z"}}})
    change, there = history.take()
    assert isinstance(change, Entry) and isinstance(there, There)
    assert (there.at_us, [o["metadata"]["name"] for o in there.objects]) == (4, ["n"])
    assert history.take() == [], "it is asked for once"
    history.close()


@pytest.mark.parametrize(
    ("budget", "begins", "want"),
    [
        (1600, 0, 100),
        (1600, 25, 100),
        (1600, 26, 104),
        (1600, 99, 396),
        (1600, 100, 400),
        (1600, 101, 400),
        (1600, 200, 400),
        (1600, 201, 402),
    ],
)
def test_how_long_a_file_becomes(budget: int, begins: int, want: int) -> None:
    assert histories._limit(budget, begins) == want


def test_a_history_that_fails_once_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store()
    history = History(tmp_path)
    history.begin(store)
    monkeypatch.setattr(os, "write", lambda _file, data: len(data) - 1)
    with caplog.at_level(logging.ERROR, "fairway.apiserver"):
        history.write(history.take())
    assert [r.getMessage() for r in caplog.records] == [
        f"{tmp_path / 'history'}: the cluster's history is not kept any more: the disk is full"
    ]
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    assert history.take() == []
    history.write([There(0, [])])
    assert len(list((tmp_path / "history").iterdir())) == 1 and len(caplog.records) == 1
