"""What Alertmanagers sent, on disk: names and numbers of files, how many are kept; and whom they may call."""

from __future__ import annotations

import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from fairway.apiserver import notified
from fairway.apiserver.notified import Sent
from fairway.telemetry.alertmanager.configuration import Integration
from fairway.telemetry.alertmanager.dispatching import FIRST, Notification
from fairway.telemetry.alertmanager.payloads import payload
from fairway.telemetry.rules.alerts import Alert
from fairway.telemetry.rules.reading import read_text

(RULE,) = read_text("groups: [{name: g, rules: [{alert: A, expr: up}]}]", "f")[0][0].rules


def note(receiver: str = "hook", kind: str = "webhook", **settings: Any) -> Notification:
    alert = Alert(RULE, "g", (("alertname", "A"),), 0, 1.0, 0)
    return Notification(0, receiver, Integration(kind, True, settings), FIRST, "{}:{}", (), (alert,), ())


def there(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


def test_each_receiver_has_a_folder_and_its_own_numbers(tmp_path: Path) -> None:
    box = Sent(tmp_path / "sent", ())
    box.deliver("team/main", [note(), note(), note(kind="slack"), note("other")])
    box.deliver("team/second", [note()])
    assert there(tmp_path / "sent") == [
        "team_main/hook/00000001-webhook.json",
        "team_main/hook/00000002-webhook.json",
        "team_main/hook/00000003-slack.json",
        "team_main/other/00000001-webhook.json",
        "team_second/hook/00000001-webhook.json",
    ]
    first = (tmp_path / "sent/team_main/hook/00000001-webhook.json").read_text(encoding="utf-8")
    assert json.loads(first) == payload(note())
    assert first.startswith('{\n  "') and first.endswith("}\n")
    assert oct((tmp_path / "sent/team_main/hook").stat().st_mode & 0o777) == "0o700"


def test_another_process_goes_on_counting_and_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "a_b" / "hook"
    folder.mkdir(parents=True)
    for name in ("00000009-webhook.json", "00000010-slack.json", "notes.txt"):
        (folder / name).write_text("x", encoding="utf-8")
    Sent(tmp_path, ()).deliver("a/b", [note()])
    assert [name.rpartition("/")[2] for name in there(tmp_path)] == [
        "00000009-webhook.json",
        "00000010-slack.json",
        "00000011-webhook.json",
        "notes.txt",
    ]


@pytest.mark.parametrize("limit", [3, 4])
def test_the_newest_files_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(notified, "MOST_FILES", limit)
    box = Sent(tmp_path, ())
    for count in range(1, 7):
        box.deliver("a/b", [note()])
        numbers = [int(name.rpartition("/")[2].partition("-")[0]) for name in there(tmp_path)]
        assert numbers == list(range(max(count - limit, 0) + 1, count + 1))


def test_the_newest_bytes_are_kept_and_the_last_file_always(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Sent(tmp_path / "one", ()).deliver("a/b", [note()])
    (file,) = (tmp_path / "one").rglob("*.json")
    size = file.stat().st_size
    for most, kept in ((3 * size, 3), (3 * size - 1, 2), (2 * size, 2), (size, 1), (1, 1)):
        monkeypatch.setattr(notified, "MOST_BYTES", most)
        folder = tmp_path / str(most)
        Sent(folder, ()).deliver("a/b", [note()] * 5)
        assert len(there(folder)) == kept, most
        assert there(folder)[-1].endswith("00000005-webhook.json")


def test_receivers_beyond_number_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notified, "MOST_RECEIVERS", 2)
    box = Sent(tmp_path, ())
    with caplog.at_level(logging.WARNING):
        box.deliver("a/b", [note("one"), note("two"), note("three"), note("one")])
    assert there(tmp_path) == [
        "a_b/one/00000001-webhook.json",
        "a_b/one/00000002-webhook.json",
        "a_b/two/00000001-webhook.json",
    ]
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"{tmp_path / 'a_b' / 'three'}: more than 2 receivers: nothing is written"]


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a_b").write_text("a file", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        Sent(tmp_path, ()).deliver("a/b", [note()])
    assert [r.getMessage() for r in caplog.records] == [
        f"{tmp_path / 'a_b' / 'hook'}: cannot be written: Not a directory"
    ]


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("hook", "hook"),
        ("a b/c", "a%20b%2Fc"),
        ("..", "%2E%2E"),
        ("", "%00"),
        ("x" * 120, "x" * 120),
        ("x" * 121, "x" * 120 + "-"),
    ],
)
def test_any_name_is_one_part_of_a_path(name: str, want: str) -> None:
    found = notified._plain(name)
    assert found.startswith(want) and "/" not in found and found not in (".", "..")
    assert len(found) == (len(want) if len(name) <= 120 else 137)
    assert notified._plain("x" * 121) != notified._plain("x" * 122)


@pytest.mark.parametrize(
    ("url", "calls", "is_allowed"),
    [
        ("http://127.0.0.1:9/x", ("127.0.0.1:9",), True),
        ("http://127.0.0.1:9/x", ("127.0.0.1",), True),
        ("http://127.0.0.1/x", ("127.0.0.1:80",), True),
        ("http://127.0.0.1:9/x", ("127.0.0.1:8",), False),
        ("http://127.0.0.2:9/x", ("127.0.0.1",), False),
        ("http://127.0.0.2:9/x", ("127.0.0.2",), True),
        ("http://localhost:9/", ("localhost",), True),
        ("http://[::1]:9/", ("[::1]:9",), True),
        ("http://[::1]:9/", ("[::1]",), True),
        ("http://[::1]:9/", ("::1",), False),
        ("https://127.0.0.1:9/", ("127.0.0.1",), False),
        ("ftp://127.0.0.1:9/", ("127.0.0.1",), False),
        ("http://192.0.2.1/", ("192.0.2.1",), False),
        ("http://example.com/", ("example.com",), False),
        ("http://user:word@127.0.0.1:9/", ("127.0.0.1:9",), True),
        ("http://127.0.0.1:x/", ("127.0.0.1",), False),
        ("http://[::1/", ("[::1]",), False),
        ("", ("127.0.0.1",), False),
    ],
)
def test_which_addresses_may_be_called(
    tmp_path: Path, url: str, calls: tuple[str, ...], is_allowed: bool
) -> None:
    """Those of loopback, in plain HTTP, that whoever started the cluster named."""
    assert Sent(tmp_path, calls)._is_allowed(url) is is_allowed


@pytest.mark.parametrize(
    ("kind", "calls", "is_posted"),
    [("webhook", ("127.0.0.1",), True), ("slack", ("127.0.0.1",), False), ("webhook", (), False)],
)
def test_only_webhooks_are_posted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, calls: tuple[str, ...], is_posted: bool
) -> None:
    posted: list[tuple[str, bytes]] = []
    box = Sent(tmp_path, calls)
    monkeypatch.setattr(box, "_post", lambda url, data: posted.append((url, data)))
    told = note(kind=kind, url="http://127.0.0.1:9/x")
    box.deliver("a/b", [told, note(kind=kind)])
    assert [(url, json.loads(data)) for url, data in posted] == (
        [("http://127.0.0.1:9/x", payload(told))] if is_posted else []
    )
    assert len(there(tmp_path)) == 2


def test_what_waits_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of an address host and port alone are told: the rest may be the secret."""
    monkeypatch.setattr(notified, "_MOST_WAITING", 2)
    box = Sent(tmp_path, ("127.0.0.1",))
    box.stop()
    assert box._thread is None
    box._thread = notified.threading.Thread(target=lambda: None)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            box._post("http://me:word@127.0.0.1:9/secret?k=v", b"%d" % number)
    assert [r.getMessage() for r in caplog.records] == [
        "127.0.0.1:9: 2 notifications wait: this one is not sent"
    ]
    box.stop()
    assert [box._waiting.get_nowait() for _ in range(2)] == [
        ("http://me:word@127.0.0.1:9/secret?k=v", b"0"),
        ("http://me:word@127.0.0.1:9/secret?k=v", b"1"),
    ]
    box.stop()
    assert box._waiting.get_nowait() is None


def test_a_file_that_somebody_took_away_is_gone_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notified, "MOST_FILES", 2)
    box = Sent(tmp_path, ())
    box.deliver("a/b", [note(), note()])
    (tmp_path / "a_b/hook/00000001-webhook.json").unlink()
    with caplog.at_level(logging.WARNING):
        box.deliver("a/b", [note(), note()])
    assert [name[-20:] for name in there(tmp_path)] == [
        "00000003-webhook.json"[-20:],
        "00000004-webhook.json"[-20:],
    ]
    assert caplog.records == []


def test_a_call_that_fails_is_told_by_its_host_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever fails: nobody listens, or what listens speaks no HTTP; and the next one is sent all the same."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    box = Sent(tmp_path, ("127.0.0.1",))
    with caplog.at_level(logging.WARNING):
        for path in ("secret", "again"):
            box.deliver("a/b", [note(url=f"http://user:word@127.0.0.1:{port}/{path}?token=secret")])
        box.stop()
        assert box._thread is not None
        box._thread.join(20)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and all(s.startswith(f"127.0.0.1:{port}: not delivered: ") for s in said)
    assert not any("secret" in s or "word" in s for s in said)
    assert box._waiting.maxsize == 1_000
