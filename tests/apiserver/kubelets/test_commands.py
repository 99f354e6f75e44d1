"""Commands in a simulated container: shells, files, archives; what climbs out, or is too much, is refused."""

from __future__ import annotations

import contextlib
import io
import re
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apiserver.kubelets import archives, running
from fairway.apiserver.kubelets.files import MAX_BYTES, FileError, Files, absolute
from fairway.apiserver.kubelets.invocation import Run
from fairway.apiserver.kubelets.place import Place
from fairway.apiserver.kubelets.shell import ShellError, parsed
from fairway.cluster.store import Store
from fairway.kube.objects import Obj

POD: Obj = {
    "metadata": {"name": "p", "namespace": "team", "uid": "u"},
    "spec": {"containers": [{"name": "c", "env": [{"name": "MODEL", "value": "llama"}]}]},
}


def ran(*argv: str, files: Files | None = None, stdin: bytes = b"") -> Run:
    place = Place(POD, "c", "n", Store(now_us=1_000_000), 1_000_000)
    return running.run(list(argv), place, files or Files(1), stdin)


def out(done: Run) -> str:
    return b"".join(said.data for said in done.said if not said.is_error).decode()


def err(done: Run) -> str:
    return b"".join(said.data for said in done.said if said.is_error).decode()


SCRIPTS: dict[str, tuple[str, str, int]] = {
    "one after another": ("echo a; echo b", "a\nb\n", 0),
    "and": ("false && echo a", "", 1),
    "or": ("false || echo a", "a\n", 0),
    "pipe": ("printf 'b\\na\\n' | wc -l", "2\n", 0),
    "to a file and back": ("echo a > /tmp/x; echo b >> /tmp/x; cat < /tmp/x", "a\nb\n", 0),
    "an error into the output": ("cat /nope 2>&1 | head -c 3", "cat", 0),
    "an error away": ("cat /nope 2>/dev/null || echo none", "none\n", 0),
    "variables": ("echo $MODEL \"${HOSTNAME}\" '$MODEL'", "llama p $MODEL\n", 0),
    "a number that is no stream": ("echo 2 > /tmp/x; cat /tmp/x", "2\n", 0),
    "exit": ("echo a; exit 3; echo b", "a\n", 3),
    "directories": ("cd /tmp && mkdir -p d/e && pwd && ls d", "/tmp\ne\n", 0),
    "a comment": ("echo a # b", "a\n", 0),
    "test": ("test -d /tmp && [ -e /nope ] || echo b", "b\n", 0),
    "tail from a byte": ("printf abcdef | tail -c+3", "cdef", 0),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_shell_runs(name: str) -> None:
    script, want, code = SCRIPTS[name]
    done = ran("sh", "-c", script)
    assert (out(done), done.code, done.is_known) == (want, code, True)


@pytest.mark.parametrize(
    "script", ["while true; do date; done", "echo $(date)", "echo `date`", "sleep 1 &", "(ls)"]
)
def test_a_shell_says_what_it_does_not_know(script: str) -> None:
    done = ran("sh", "-c", script)
    assert (done.code, done.is_known) == (2, False) and "not known to this shell" in err(done)


@pytest.mark.parametrize("script", ["echo 'a", 'echo "a', "echo >", "| ls", "a && && b"])
def test_syntax_errors(script: str) -> None:
    assert "Syntax error" in err(ran("sh", "-c", script))


@given(st.text("ab '\"\\$>|&;<{}()#12\n", max_size=40))
def test_no_script_breaks_the_parser(script: str) -> None:
    with contextlib.suppress(ShellError):
        parsed(script, {})


def test_a_sleep_moves_what_follows() -> None:
    done = ran("sh", "-c", "echo a; sleep 5; echo b")
    assert [said.after_us for said in done.said] == [0, 5_000_000]
    assert done.elapsed_us == 5_000_000


def test_an_unknown_command_is_not_found() -> None:
    done = ran("python", "x.py")
    assert (err(done), done.code, done.is_known) == ("python: not found\n", 127, False)


# Files


@given(st.lists(st.sampled_from(("..", ".", "a", "", "b")), max_size=8).map("/".join))
def test_no_path_climbs_out(path: str) -> None:
    found = absolute(path, "/tmp")
    assert found.startswith("/") and ".." not in found.split("/") and not found.startswith("//")


def test_a_file_system_is_small() -> None:
    files = Files(1)
    with pytest.raises(FileError, match="No space left"):
        files.write("/tmp/x", bytes(MAX_BYTES + 1), 1)
    files.write("/tmp/x", bytes(MAX_BYTES), 1)
    with pytest.raises(FileError, match="No space left"):
        files.write("/tmp/y", b"1", 1)
    files.remove("/tmp/x")
    files.write("/tmp/y", b"1", 1)
    with pytest.raises(FileError, match="File name too long"):
        files.write("/tmp/" + "x" * 256, b"", 1)


def test_removing_everything_is_not_permitted() -> None:
    assert ran("rm", "-rf", "/").code == 1


# Archives


def archive(*members: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(data), "/etc/passwd"
            tar.addfile(member, io.BytesIO(data))
    return made.getvalue()


def test_what_is_packed_can_be_unpacked_elsewhere() -> None:
    files = Files(1)
    ran("sh", "-c", "mkdir -p /src/d; echo one > /src/d/f; echo two > /src/g", files=files)
    packed = b"".join(
        said.data for said in ran("tar", "cf", "-", "/src", files=files).said if not said.is_error
    )
    other = Files(1)
    assert ran("tar", "-xmf", "-", "-C", "/tmp", files=other, stdin=packed).code == 0
    assert (other.read("/tmp/src/d/f"), other.read("/tmp/src/g")) == (b"one\n", b"two\n")


HOSTILE: dict[str, tuple[bytes, str]] = {
    "up": (archive(("../../etc/x", b"1")), "Member name contains '..'"),
    "a link": (archive(("x", b""), kind=tarfile.SYMTYPE), "links and devices do not exist"),
    "a device": (archive(("x", b""), kind=tarfile.CHRTYPE), "links and devices do not exist"),
    "junk": (b"x" * 1024, "does not look like a tar archive"),
    "too much": (archive(("x", bytes(MAX_BYTES + 1))), "No space left"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused(name: str) -> None:
    data, want = HOSTILE[name]
    files = Files(1)
    before = files.below("/")
    done = ran("tar", "xf", "-", files=files, stdin=data)
    assert done.code == 2 and want in err(done)
    assert files.below("/") == before


def test_absolute_names_lose_their_slash() -> None:
    files = Files(1)
    ran("tar", "xf", "-", "-C", "/tmp", files=files, stdin=archive(("/etc/hostname", b"evil")))
    assert files.exists("/tmp/etc/hostname") and not files.exists("/etc/hostname")


@given(st.binary(max_size=2000))
def test_no_bytes_break_unpacking(junk: bytes) -> None:
    files = Files(1)
    archives.unpack(files, junk, "/tmp", 1)
    archives.unpack(files, archive(("a", b"b"))[: len(junk)] + junk, "/tmp", 1)


def test_the_end_of_an_archive_is_seen_where_it_is() -> None:
    whole = archive(("zeros", bytes(5000)), ("b", b"x"))
    end = next(i for i in range(len(whole) + 1) if archives.is_complete(whole[:i]))
    assert end == 512 + 5120 + 512 + 512 + 1024
    assert archives.is_complete(whole)


def packed(*argv: str) -> tuple[list[tuple[str, bytes | None, str, int, str]], list[str]]:
    """The members of an archive of a small tree, and what was complained about."""
    files = Files(7)
    ran("sh", "-c", "mkdir -p /src/d; echo one > /src/d/f; echo two > /src/g", files=files)
    done = ran("tar", *argv, files=files)
    data = b"".join(said.data for said in done.said if not said.is_error)
    found = []
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for m in tar:
            content = tar.extractfile(m)
            text = None if content is None else content.read()
            found.append((m.name, text, f"{m.mode:o}", m.mtime, f"{m.uname}:{m.gname}"))
    return found, err(done).splitlines()


SLASH = "tar: Removing leading `/' from member names"


@pytest.mark.parametrize(
    ("argv", "names", "said"),
    [
        (("cf", "-", "/src"), ["src", "src/d", "src/d/f", "src/g"], [SLASH]),
        (("c", "/src"), ["src", "src/d", "src/d/f", "src/g"], [SLASH]),
        (("cf", "-", "-C", "/src", "."), [".", "./d", "./d/f", "./g"], []),
        (("cf", "-", "-C", "/src", "d", "g"), ["d", "d/f", "g"], []),
        (
            ("cf", "-", "nope", "-C", "/src", "g"),
            ["g"],
            [
                "tar: nope: Cannot stat: No such file or directory",
                "tar: Exiting with failure status due to previous errors",
            ],
        ),
        (("cf", "-", "/src/d", "/src/g"), ["src/d", "src/d/f", "src/g"], [SLASH]),
    ],
)
def test_an_archive_has_all_that_is_there_and_says_what_is_not(
    argv: tuple[str, ...], names: list[str], said: list[str]
) -> None:
    members, told = packed(*argv)
    contents = {"f": b"one\n", "g": b"two\n"}
    assert [name for name, *_ in members] == names
    assert told == said
    for name, data, mode, modified_s, owner in members:
        want = contents.get(name.rpartition("/")[2])
        assert (data, mode, owner) == (want, "755" if want is None else "644", "root:root"), name
        assert modified_s > 0


def test_what_is_unpacked_keeps_its_mode_and_makes_its_directories() -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, mode, kind in (("a/b/run", 0o4755, tarfile.REGTYPE), ("c", 0o700, tarfile.DIRTYPE)):
            member = tarfile.TarInfo(name)
            member.mode, member.type, member.size = mode, kind, 2 if kind == tarfile.REGTYPE else 0
            tar.addfile(member, io.BytesIO(b"hi"))
    files = Files(7)
    done = ran("tar", "xmf", "-", "-C", "/tmp", files=files, stdin=made.getvalue())
    assert (done.code, err(done)) == (0, "")
    assert files.below("/tmp") == ["/tmp", "/tmp/a", "/tmp/a/b", "/tmp/a/b/run", "/tmp/c"]
    entry = files.entry("/tmp/a/b/run")
    assert (entry.data, entry.mode) == (b"hi", 0o755)
    assert files.is_directory("/tmp/c")


def number(field: bytes) -> bool:
    """Whether an archive whose first member's size stands so is seen to end after it."""
    header = bytearray(archive(("a", b"x" * 600))[:512])
    header[124:136] = field
    return archives.is_complete(bytes(header) + bytes(b"x" * 1024) + bytes(1024))


@pytest.mark.parametrize(
    ("field", "ends"),
    [
        (b"00000001130\0", True),
        (b"       1130 ", True),
        (b"00000002000\0", True),
        (b"00000002001\0", False),
        (b"00000000777\0", False),
        (b"0000000113x\0", False),
        (b"0000000113\x00x", False),
        (b"\x80" + (600).to_bytes(11, "big"), True),
        (b"\x80" + (1025).to_bytes(11, "big"), False),
    ],
)
def test_a_size_is_octal_or_binary(field: bytes, ends: bool) -> None:
    assert number(field) is ends


def test_an_archive_may_be_as_large_as_all_files_together() -> None:
    for more, code in ((0, 0), (1, 2)):
        files = Files(0)
        room = MAX_BYTES - files.used
        done = ran("tar", "xf", "-", "-C", "/tmp", files=files, stdin=archive(("x", bytes(room + more))))
        assert (done.code, files.exists("/tmp/x")) == (code, not more)


def test_what_is_in_the_way_of_an_archive_is_said() -> None:
    files = Files(0)
    files.write("/tmp/a", b"a file", 0)
    done = ran("tar", "xf", "-", "-C", "/tmp", files=files, stdin=archive(("a/b", b"x"), ("c", b"y")))
    said = b"".join(s.data for s in done.said if s.is_error)
    assert b"tar: a/b: Cannot open: Not a directory\n" in said and files.read("/tmp/c") == b"y"


@pytest.mark.parametrize(
    "word", ["while", "until", "for", "if", "case", "function", "{", "}", "!", "do", "done", "then", "fi"]
)
def test_words_that_only_a_real_shell_knows(word: str) -> None:
    with pytest.raises(
        ShellError, match=f'^"{re.escape(word)}" is not known to this shell: it runs plain commands only$'
    ):
        parsed(f"{word} x", {})


@pytest.mark.parametrize(
    ("words", "said"),
    [("-q x", "test: -q: unary operator expected\n"), ("a b c", "test: too many arguments\n")],
)
def test_tests_that_are_none(words: str, said: str) -> None:
    done = ran("test", *words.split())
    assert (done.code, b"".join(s.data for s in done.said if s.is_error)) == (2, said.encode())
