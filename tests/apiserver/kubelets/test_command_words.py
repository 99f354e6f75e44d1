"""Commands of simulated containers, flag by flag: what they print, say wrong and return."""

from __future__ import annotations

import tarfile
from io import BytesIO

import pytest

from fairway.apiserver.kubelets import invocation, running
from fairway.apiserver.kubelets.files import Files
from fairway.apiserver.kubelets.invocation import Run
from fairway.apiserver.kubelets.place import Place
from fairway.apiserver.kubelets.shell import MAX_SCRIPT, ShellError, parsed
from fairway.cluster.store import Store
from fairway.kube.objects import Obj

POD: Obj = {
    "metadata": {"name": "p", "namespace": "team", "uid": "u"},
    "spec": {"containers": [{"name": "c", "env": [{"name": "MODEL", "value": "llama"}]}]},
}
SECOND = 1_000_000


def ran(*argv: str, stdin: bytes = b"", files: Files | None = None) -> Run:
    place = Place(POD, "c", "n", Store(now_us=90 * SECOND), 90 * SECOND)
    return running.run(list(argv), place, files or Files(60), stdin)


def said(done: Run, *, is_error: bool = False) -> str:
    return b"".join(s.data for s in done.said if s.is_error == is_error).decode()


MAKE = "printf 'a\\nb\\nc\\n' > /tmp/x; "
# script, output, errors, exit code
TABLE: list[tuple[str, str, str, int]] = [
    ("printenv MODEL", "llama\n", "", 0),
    ("printenv MODEL NONE", "llama\n", "", 1),
    ("printenv NONE", "", "", 1),
    ("env | head -n 0", "", "", 0),
    ("hostname", "p\n", "", 0),
    ("whoami", "root\n", "", 0),
    ("date", "1970-01-01T00:01:30Z\n", "", 0),
    ("date +%s", "90\n", "", 0),
    ("echo -n a b", "a b", "", 0),
    ("echo -e a", "a\n", "", 0),
    ("echo -ne a; echo a -n", "aa -n\n", "", 0),
    ("printf", "", "printf: usage: printf format [arguments]\n", 2),
    ("printf '%s-%d\\n' a 7", "a-7\n", "", 0),
    ("printf '%d %s' 1 2", "1 2", "", 0),
    ("printf '100%%\\t%s' a b", "100%\ta100%\tb", "", 0),
    ("false", "", "", 1),
    ("true", "", "", 0),
    ("pwd", "/\n", "", 0),
    (MAKE + "cat /tmp/x", "a\nb\nc\n", "", 0),
    (MAKE + "cat /tmp/x /nope", "a\nb\nc\n", "cat: /nope: No such file or directory\n", 1),
    ("cat /tmp", "", "cat: /tmp: Is a directory\n", 1),
    ("echo a | cat -", "a\n", "", 0),
    (MAKE + "head -n 2 /tmp/x", "a\nb\n", "", 0),
    (MAKE + "head -2 /tmp/x", "a\nb\n", "", 0),
    (MAKE + "head -n2 /tmp/x", "a\nb\n", "", 0),
    (MAKE + "head -c 3 /tmp/x", "a\nb", "", 0),
    (MAKE + "head -n 9 /tmp/x", "a\nb\nc\n", "", 0),
    (MAKE + "tail -n 2 /tmp/x", "b\nc\n", "", 0),
    (MAKE + "tail -n +2 /tmp/x", "b\nc\n", "", 0),
    (MAKE + "tail -n +0 /tmp/x", "a\nb\nc\n", "", 0),
    (MAKE + "tail -c 2 /tmp/x", "c\n", "", 0),
    (MAKE + "tail -n 9 /tmp/x", "a\nb\nc\n", "", 0),
    (MAKE + "tail -n 0 /tmp/x", "", "", 0),
    (MAKE + "tail -n x /tmp/x", "", "tail: invalid number of lines: 'x'\n", 1),
    ("head /nope", "", "head: cannot open '/nope' for reading: No such file or directory\n", 1),
    ("tail -f /nope", "", "tail: cannot open '/nope' for reading: No such file or directory\n", 1),
    (MAKE + "wc /tmp/x", "3 3 6 /tmp/x\n", "", 0),
    (MAKE + "wc -l /tmp/x", "3 /tmp/x\n", "", 0),
    (MAKE + "wc -c < /tmp/x", "6\n", "", 0),
    ("echo a b | wc -w", "2\n", "", 0),
    ("ls /nope", "", "ls: cannot access '/nope': No such file or directory\n", 2),
    ("touch /tmp/.h /tmp/b; ls /tmp", "b\n", "", 0),
    ("touch /tmp/.h /tmp/b; ls -a /tmp", ".h\nb\n", "", 0),
    ("touch /tmp/b; ls -d /tmp", "/tmp\n", "", 0),
    ("touch /tmp/b; mkdir /tmp/d; ls /tmp/b /tmp/d /tmp", "/tmp/b\n\n/tmp:\nb\nd\n\n/tmp/d:\n", "", 0),
    (
        "echo abc > /tmp/b; mkdir /tmp/d; ls -l /tmp",
        "-rw-r--r-- 1 root root        4 1970-01-01 00:01 b\ndrwxr-xr-x 1 root root     4096 1970-01-01 00:01 d\n",
        "",
        0,
    ),
    ("mkdir /tmp/a/b", "", "mkdir: cannot create directory '/tmp/a/b': No such file or directory\n", 1),
    ("mkdir -p /tmp/a/b; ls /tmp/a", "b\n", "", 0),
    ("mkdir /tmp", "", "mkdir: cannot create directory '/tmp': File exists\n", 1),
    ("rm /nope", "", "rm: cannot remove '/nope': No such file or directory\n", 1),
    ("rm -f /nope", "", "", 0),
    ("rm /tmp", "", "rm: cannot remove '/tmp': Is a directory\n", 1),
    ("touch /tmp/a; rm -r /tmp; ls /tmp", "", "ls: cannot access '/tmp': No such file or directory\n", 2),
    ("rm -Rf /tmp; test -e /tmp", "", "", 1),
    ("touch /tmp; echo a > /tmp/x; touch /tmp/x; cat /tmp/x", "a\n", "", 0),
    ("touch /nope/x", "", "touch: cannot touch '/nope/x': No such file or directory\n", 1),
    ("echo a | tee /tmp/x; echo b | tee -a /tmp/x; cat /tmp/x", "a\nb\na\nb\n", "", 0),
    ("echo a > /tmp/x; echo b | tee /tmp/x; cat /tmp/x", "b\nb\n", "", 0),
    ("echo a | tee /tmp", "a\n", "tee: /tmp: Is a directory\n", 1),
    (MAKE + "cp /tmp/x /tmp/y; cat /tmp/y; test -e /tmp/x", "a\nb\nc\n", "", 0),
    (MAKE + "cp /tmp/x /home; wc -l /home/x", "3 /home/x\n", "", 0),
    (MAKE + "mv /tmp/x /tmp/y; cat /tmp/y; test -e /tmp/x", "a\nb\nc\n", "", 1),
    (MAKE + "mv /tmp/x /tmp/x; wc -l /tmp/x", "3 /tmp/x\n", "", 0),
    ("cp /tmp/x", "", "cp: missing file operand\n", 1),
    ("mv /nope /tmp/y", "", "mv: cannot stat '/nope': No such file or directory\n", 1),
    ("tar", "", "tar: You must specify one of the '-Acdtrux' options\n", 2),
    ("tar cf - -C /nope .", "", "tar: /nope: Cannot open: No such file or directory\n", 2),
    ("tar czf - /tmp", "", "tar: only plain archives on standard input and output\n", 2),
    ("tar cf /tmp/x /tmp", "", "tar: only plain archives on standard input and output\n", 2),
    (
        "tar cf - nope > /dev/null",
        "",
        "tar: nope: Cannot stat: No such file or directory\ntar: Exiting with failure status due to previous errors\n",
        2,
    ),
    ("sleep x", "", "sleep: invalid time interval 'x'\n", 1),
    ("chroot /host hostname", "p\n", "", 0),
    ("chroot /host nope", "", "chroot: failed to run command 'nope': No such file or directory\n", 127),
    ("chroot /host", "", "chroot: failed to run command '/bin/bash': No such file or directory\n", 127),
    ("nope", "", "nope: not found\n", 127),
    # The shell itself.
    ("echo a#b '#'  # c", "a#b #\n", "", 0),
    ('echo "a\\"b\\\\c\\x$MODEL"', 'a"b\\c\\xllama\n', "", 0),
    ("echo a\\ b\\\nc", "a bc\n", "", 0),
    ("echo ${MODEL}s $NONE. $ '$MODEL'", "llamas . $ $MODEL\n", "", 0),
    ("echo a2>/tmp/x; cat /tmp/x", "a2\n", "", 0),
    ("echo a 2>/tmp/x", "a\n", "", 0),
    ("cat /nope 2>/tmp/x; cat /nope 2>>/tmp/x; wc -l < /tmp/x", "2\n", "", 0),
    ("echo a 1>/tmp/x; echo b 1>> /tmp/x; cat /tmp/x", "a\nb\n", "", 0),
    ("echo a >&2", "", "a\n", 0),
    ("echo a 1>&2", "", "a\n", 0),
    ("cat < /nope", "", "sh: 1: cannot open /nope: No such file or directory\n", 2),
    ("false && echo a || echo b", "b\n", "", 0),
    ("true || echo a && echo b", "b\n", "", 0),
    ("echo a\n\necho b;", "a\nb\n", "", 0),
    ("echo ${", "", "sh: 1: Bad substitution\n", 2),
    ("echo ${}", "", "sh: 1: Bad substitution\n", 2),
    ("echo ${a-b}", "", "sh: 1: Bad substitution\n", 2),
    ('echo "`"', "", 'sh: 1: "`" is not known to this shell: it runs plain commands only\n', 2),
]


@pytest.mark.parametrize(("script", "out", "err", "code"), TABLE)
def test_words(script: str, out: str, err: str, code: int) -> None:
    done = ran("sh", "-c", script)
    assert (said(done), said(done, is_error=True), done.code) == (out, err, code)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("-e /tmp", 0),
        ("-e /nope", 1),
        ("-f /tmp", 1),
        ("-f /tmp/x", 0),
        ("-f /nope", 1),
        ("-d /tmp", 0),
        ("-d /tmp/x", 1),
        ("-s /tmp/x", 0),
        ("-s /tmp/empty", 1),
        ("-s /nope", 1),
        ("-n a", 0),
        ("-n ''", 1),
        ("-z a", 1),
        ("-z ''", 0),
        ("a = a", 0),
        ("a = b", 1),
        ("a != a", 1),
        ("a != b", 0),
        ("a", 0),
        ("''", 1),
        ("-q a", 2),
        ("a b c d", 2),
    ],
)
def test_tests(words: str, code: int) -> None:
    before = "echo a > /tmp/x; touch /tmp/empty; "
    assert ran("sh", "-c", f"{before}test {words}").code == code
    bracketed = ran("sh", "-c", f"{before}[ {words} ]")
    assert bracketed.code == code
    assert bracketed.is_known == (code != 2)


def test_time_passes_where_it_is_waited() -> None:
    forever = 2**59
    for script, at_least, less_than in (
        ("sleep 5", 5 * SECOND, 6 * SECOND),
        ("sleep 1m", 60 * SECOND, 61 * SECOND),
        ("sleep infinity", forever, 2**61),
        ("tail -f /dev/null", forever, 2**61),
        ("echo a > /tmp/x; tail -n 1 -f /tmp/x", forever, 2**61),
        ("tail -f /nope", 0, 1),
        ("sleep x", 0, 1),
    ):
        done = ran("sh", "-c", script)
        assert at_least <= done.elapsed_us < less_than, script
    assert said(ran("sh", "-c", "sleep 5; date +%s")) == "95\n"
    assert said(ran("sh", "-c", "printf 'a\\nb\\n' > /tmp/x; tail -n 1 -f /tmp/x")) == "b\n"


def test_a_shell_that_stops_at_errors() -> None:
    assert said(ran("sh", "-ec", "false; echo a")) == ""
    assert ran("sh", "-ec", "false; echo a").code == 1
    assert said(ran("sh", "-c", "false; echo a")) == "a\n"
    assert said(ran("/bin/bash", "-e", "-c", "echo b")) == "b\n"
    assert said(ran("sh", stdin=b"echo from input")) == "from input\n"
    assert ran().code == 126


@pytest.mark.parametrize(
    ("argv", "reads"),
    [
        (["cat"], True),
        (["cat", "-"], True),
        (["cat", "x"], False),
        (["tee", "x"], True),
        (["wc", "-l"], True),
        (["ls"], False),
        (["sh"], True),
        (["sh", "-c", "cat > /tmp/x"], False),
        (["sh", "-c", "cat | wc"], True),
        (["sh", "-c", "echo a"], False),
        (["sh", "-c", ""], False),
        (["tar", "xmf", "-"], True),
        (["/bin/tar", "cf", "-", "x"], False),
        (["tar"], False),
    ],
)
def test_who_reads_its_input_first(argv: list[str], reads: bool) -> None:
    if argv[-1] == "cat > /tmp/x":
        reads = running.needs_input(["cat", ">", "/tmp/x"])
    assert running.needs_input(argv) == reads
    assert running.reads_archive(argv) == (reads and argv[0].endswith("tar"))


def test_what_is_packed_has_its_modes_and_names() -> None:
    files = Files(60)
    files.make_directories("/data/sub", 61)
    files.write("/data/a", b"one", 62, mode=0o600)
    files.write("/data/sub/b", b"two", 63)
    done = ran("tar", "cf", "-", "/data", files=files)
    assert said(done, is_error=True) == "tar: Removing leading `/' from member names\n"
    assert done.code == 0
    with tarfile.open(fileobj=BytesIO(b"".join(s.data for s in done.said if not s.is_error))) as archive:
        found = [(m.name, m.mode, m.mtime, m.isdir(), m.uname) for m in archive]
    assert found == [
        ("data", 0o755, 61, True, "root"),
        ("data/a", 0o600, 62, False, "root"),
        ("data/sub", 0o755, 61, True, "root"),
        ("data/sub/b", 0o644, 63, False, "root"),
    ]


def test_a_script_that_starts_itself_ends() -> None:
    script = 'echo a; sh -c "$AGAIN"; sh -c "$AGAIN"'
    pod: Obj = {
        **POD,
        "spec": {"containers": [{"name": "c", "env": [{"name": "AGAIN", "value": script}]}]},
    }
    done = running.run(["sh", "-c", script], Place(pod, "c", "n", Store(now_us=0), 0), Files(60))
    assert said(done) == "a\n" * 64
    assert set(said(done, is_error=True).splitlines()) == {"sh: 1: Cannot fork"}
    assert (done.code, done.is_known) == (2, False)


def test_a_script_has_a_size() -> None:
    assert len(parsed(" " * (MAX_SCRIPT - 2) + "ls", {})) == 1
    with pytest.raises(ShellError, match="at most 65536"):
        parsed(" " * (MAX_SCRIPT - 1) + "ls", {})


def test_a_command_writes_so_much_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invocation, "_MAX_OUTPUT", 4)
    for script, out in (
        ("echo abc; echo d", "abc\n"),
        ("echo ab; echo cd; echo -n e; echo f", "ab\ne"),
        ("echo abcd; echo a", "a\n"),
    ):
        assert said(ran("sh", "-c", script)) == out
