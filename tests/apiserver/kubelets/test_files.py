"""The files of a simulated container: each operation with all that it leaves behind, and every limit on both sides."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apiserver.kubelets.files import MAX_BYTES, MAX_ENTRIES, FileError, Files, absolute


def tree(files: Files, path: str = "/tmp") -> list[tuple[str, bytes | None, int, int]]:
    entries = [(p, files.entry(p)) for p in files.below(path)]
    return [(p, e.data, e.mode, e.modified_s) for p, e in entries]


def refused(call: Callable[..., Any], *given: Any, **more: Any) -> str:
    with pytest.raises(FileError) as why:
        call(*given, **more)
    return str(why.value)


def test_what_a_container_begins_with() -> None:
    files = Files(7)
    assert " ".join(files.listed("/")) == "bin dev etc home lib proc root run sbin sys tmp usr var"
    assert files.below("/dev") == ["/dev", "/dev/null"] and files.read("/dev/null") == b""
    assert files.is_directory("/var/run/secrets/kubernetes.io/serviceaccount")
    assert {mode for p, _, mode, _ in tree(files, "/") if files.is_directory(p)} == {0o755}
    assert {now_s for _, _, _, now_s in tree(files, "/")} == {7}
    assert files.used == 0


def test_writing_keeps_the_mode_and_moves_the_time() -> None:
    files = Files(1)
    files.write("/tmp/a", b"one", 2, mode=0o600)
    files.write("/tmp/a", b"two!", 3)
    assert tree(files) == [("/tmp", None, 0o755, 1), ("/tmp/a", b"two!", 0o600, 3)]
    files.write("/tmp/a", b"?", 4, append=True)
    files.write("/tmp/b", b"new", 5, append=True)
    assert tree(files)[1:] == [("/tmp/a", b"two!?", 0o600, 4), ("/tmp/b", b"new", 0o644, 5)]
    files.write("/tmp/a", b"", 6, mode=0)
    assert tree(files)[1:] == [("/tmp/a", b"", 0, 6), ("/tmp/b", b"new", 0o644, 5)]
    assert files.used == 3


def test_removing_takes_everything_below_and_nothing_beside() -> None:
    files = Files(1)
    files.make_directories("/tmp/d/e/f", 2)
    files.make_directory("/tmp/dd", 3, 0o700)
    for path in ("/tmp/d/e/f/a", "/tmp/d/e/b", "/tmp/d.txt", "/tmp/dd/c"):
        files.write(path, b"12", 4)
    assert refused(files.remove, "/tmp/d") == "Directory not empty"
    files.remove("/tmp/d", recursive=True)
    assert tree(files)[1:] == [
        ("/tmp/d.txt", b"12", 0o644, 4),
        ("/tmp/dd", None, 0o700, 3),
        ("/tmp/dd/c", b"12", 0o644, 4),
    ]
    assert files.used == 4
    files.remove("/tmp/dd/c")
    files.remove("/tmp/dd")
    files.remove("/tmp/d.txt")
    assert (tree(files), files.used) == ([("/tmp", None, 0o755, 1)], 0)
    assert (
        refused(files.remove, "/") == refused(files.remove, "/", recursive=True) == "Operation not permitted"
    )
    assert refused(files.remove, "/tmp/nope") == "No such file or directory"


def test_what_is_listed() -> None:
    files = Files(1)
    for path in ("/tmp/b", "/tmp/a/c", "/tmp/a/d/e", "/tmpx"):
        files.make_directories(posixpath.dirname(path), 1)
        files.write(path, b"", 1)
    assert files.listed("/tmp") == ["a", "b"] and files.listed("/tmp/a") == ["c", "d"]
    assert files.below("/tmp") == ["/tmp", "/tmp/a", "/tmp/a/c", "/tmp/a/d", "/tmp/a/d/e", "/tmp/b"]
    assert files.below("/tmp/b") == ["/tmp/b"] and files.below("/nope") == []
    assert set(files.below("/")) == {"/", "/tmpx", *files.below("/tmp"), *files.below("/var")} | {
        p for p in files.below("/") if p.split("/")[1] not in ("tmp", "tmpx", "var")
    }
    assert refused(files.listed, "/tmp/b") == "Not a directory"
    assert refused(files.listed, "/nope") == "No such file or directory"
    assert files.exists("/tmp/a") and files.exists("/tmp/b") and not files.exists("/tmp/c")
    assert [files.is_directory(p) for p in ("/tmp/a", "/tmp/b", "/nope", "/")] == [True, False, False, True]


def test_what_cannot_be_done_is_said_as_the_kernel_says_it() -> None:
    files = Files(1)
    files.write("/tmp/f", b"x", 1)
    before = tree(files)
    assert [
        refused(files.read, "/tmp"),
        refused(files.read, "/nope"),
        refused(files.entry, "/nope"),
        refused(files.write, "/tmp", b"", 2),
        refused(files.write, "/nope/x", b"", 2),
        refused(files.write, "/tmp/f/x", b"", 2),
        refused(files.make_directory, "/tmp", 2),
        refused(files.make_directory, "/tmp/f", 2),
        refused(files.make_directory, "/tmp/f/x", 2),
        refused(files.make_directory, "/nope/x", 2),
        refused(files.make_directories, "/tmp/f/x", 2),
        refused(files.make_directories, "/tmp/f", 2),
    ] == [
        "Is a directory",
        "No such file or directory",
        "No such file or directory",
        "Is a directory",
        "No such file or directory",
        "Not a directory",
        "File exists",
        "File exists",
        "Not a directory",
        "No such file or directory",
        "Not a directory",
        "Not a directory",
    ]
    files.make_directories("/tmp", 2)
    assert (tree(files), files.used) == (before, 1)


def test_names_and_paths_have_a_length() -> None:
    files = Files(1)
    files.write("/tmp/" + "x" * 255, b"", 1)
    assert refused(files.write, "/tmp/" + "x" * 256, b"", 1) == "File name too long"
    assert refused(files.make_directory, "/" + "x" * 256, 1) == "File name too long"
    deep = "/tmp" + ("/" + "d" * 240) * 16
    files.make_directories(deep, 1)
    room = 4096 - len(deep) - 1
    files.write(f"{deep}/{'x' * room}", b"", 1)
    assert refused(files.write, f"{deep}/{'x' * (room + 1)}", b"", 1) == "File name too long"


def test_bytes_and_entries_are_counted() -> None:
    files = Files(1)
    files.write("/tmp/a", bytes(MAX_BYTES - 1), 1)
    files.write("/tmp/b", b"1", 1)
    assert refused(files.write, "/tmp/b", b"1", 1, append=True) == "No space left on device"
    assert (files.read("/tmp/b"), files.used) == (b"1", MAX_BYTES)
    files.write("/tmp/a", b"", 1)
    files.write("/tmp/b", b"12", 1)
    assert files.used == 2
    left = MAX_ENTRIES - len(files.below("/"))
    for n in range(left):
        files.write(f"/tmp/n{n}", b"", 1)
    assert refused(files.write, "/tmp/more", b"", 1) == "No space left on device"
    assert refused(files.make_directory, "/tmp/more", 1) == "No space left on device"
    files.write("/tmp/a", b"still", 1)
    files.remove("/tmp/n0")
    files.make_directory("/tmp/more", 1)


@given(
    st.lists(st.sampled_from(("..", ".", "a", "", "b")), max_size=6).map("/".join),
    st.sampled_from(("/", "/x/y")),
)
def test_paths_are_worked_out_part_by_part(path: str, directory: str) -> None:
    at: list[str] = [] if path.startswith("/") else directory.split("/")
    for part in path.split("/"):
        if part == "..":
            at = at[:-1]
        elif part not in ("", "."):
            at.append(part)
        at = [p for p in at if p]
    assert absolute(path, directory) == "/" + "/".join(p for p in at if p)


def test_two_slashes_in_front_are_one() -> None:
    assert [absolute(p) for p in ("//a", "///a", "//", "/", "", "a//b")] == [
        "/a",
        "/a",
        "/",
        "/",
        "/",
        "/a/b",
    ]
