"""Slurm's words: hostlists, durations, times, sizes. What is wanted was printed by Slurm 22.05.8."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fairway.slurm.words import durations, errors, sizes
from fairway.slurm.words.hostlist import HostlistError, compress, compress_sorted, expand


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("gpu[01-03,07],a1", "gpu01 gpu02 gpu03 gpu07 a1"),
        ("n[9-11]", "n9 n10 n11"),
        ("n[09-11]", "n09 n10 n11"),
        ("a[1-2]b[3-4]", "a1b3 a1b4 a2b3 a2b4"),
        ("n[1-", "n]"),
        ("n[1,1]", "n1 n1"),
        ("n-1,n-2", "n-1 n-2"),
        ("n1 n2", "n1 n2"),
        ("gpu[98-101]", "gpu98 gpu99 gpu100 gpu101"),
    ],
)
def test_expand(text: str, want: str) -> None:
    assert " ".join(expand(text)) == want


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("n[1-2,5]x", ""),
        ("n[3-1]", "_parse_single_range: Invalid range: `3-1'"),
        ("n[]", "_parse_single_range: Invalid range: `'"),
        ("n[0-99999999]", "_parse_single_range: Too many hosts in range `0-99999999'"),
    ],
)
def test_no_hostlist(text: str, reason: str) -> None:
    with pytest.raises(HostlistError) as caught:
        expand(text)
    assert (str(caught.value), caught.value.reason) == (f"Invalid hostlist: {text}", reason)


@pytest.mark.parametrize(
    ("names", "want"),
    [
        ("gpu01,gpu02,gpu04,a01", "gpu[01-02,04],a01"),
        ("n3,n1,n2", "n[3,1-2]"),
        ("n01,n02,n3", "n[01-02,3]"),
        ("n10,n9,n8", "n[10,9,8]"),
        ("n1,n1,n2", "n[1,1-2]"),
        ("n001,n01,n1", "n[001,01,1]"),
        ("r1n1,r1n2,r2n1", "r1n[1-2],r2n1"),
        ("n08,n09,n10,n11", "n[08-11]"),
        ("n8,n9,n10,n11", "n[8-11]"),
        ("a1,b1,a2", "a1,b1,a2"),
        ("x", "x"),
    ],
)
def test_compress(names: str, want: str) -> None:
    assert compress(names.split(",")) == want


def test_compress_sorted() -> None:
    assert compress_sorted(["n10", "n9", "n1"]) == "n[1,9-10]"
    assert compress_sorted(["b2", "a1", "b1"]) == "a1,b[1-2]"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("5", 5),
        ("5:30", 6),
        ("1-0", 1440),
        ("1-2:3:4", 1564),
        ("1-25:61:61", 3003),
        ("2-", 2880),
        ("0:01", 1),
        ("-1", durations.INFINITE),
        ("Unlimited", durations.INFINITE),
        ("1:60:60", 121),
        *((bad, None) for bad in ("1:", "30s", "1h", "0-1:", "5.5", "+5", " 5", "1-1-1", "", "1:2:3:4")),
    ],
)
def test_time_limit(text: str, want: int | None) -> None:
    assert durations.minutes(text) == want


@pytest.mark.parametrize("text", ["99999999", "-5"])
def test_a_time_limit_that_does_not_fit_is_shown_as_invalid(text: str) -> None:
    assert durations.short((durations.minutes(text) or 0) * 60) == "INVALID"


NOW = int(datetime(2026, 11, 22, 22, 28, 15, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("now+1minute", "2026-11-22T22:29:15"),
        ("now+3weeks", "2026-12-13T22:28:15"),
        ("now-5", "2026-11-22T22:28:10"),
        ("2031-02-03T04:05", "2031-02-03T04:05:00"),
        ("12/25/31", "2031-12-25T00:00:00"),
        ("122531-0102", "2031-01-02T00:00:00"),
        ("01/15/30-10:00", "2030-01-15T10:00:00"),
        ("tomorrow", "2026-11-23T00:00:00"),
        ("midnight", "2026-11-23T00:00:00"),
        ("fika", "2026-11-23T15:00:00"),
        ("11/21", "2027-11-21T00:00:00"),
        ("10:30pm", "2026-11-22T22:30:00"),
    ],
)
def test_times(text: str, want: str) -> None:
    assert durations.stamp(durations.parse_time(text, NOW)) == want


@pytest.mark.parametrize(
    ("text", "at"), [("garbage", 0), ("noon+1day", 4), ("now+", 3), ("2031-13-01", 5), ("99/99/99", 0)]
)
def test_no_times(text: str, at: int) -> None:
    with pytest.raises(durations.TimeError) as caught:
        durations.parse_time(text, NOW)
    assert str(caught.value) == f"Invalid time specification (pos={at}): {text}"


def test_sizes() -> None:
    assert [sizes.megabytes(t) for t in ("10G", "512", "1024K", "1025K", "10X", "-1", "")] == [
        10240,
        512,
        1,
        2,
        None,
        None,
        None,
    ]
    assert [sizes.memory_text(n) for n in (1024, 2000, 12288, 64000, 1000000, 256000, 4512000)] == [
        "1G",
        "2000M",
        "12G",
        "62.50G",
        "1000000M",
        "250G",
        "4512000M",
    ]
    assert sizes.parse_tres("cpu=4,mem=10G,gres/gpu=2") == {"cpu": 4, "mem": 10240, "gres/gpu": 2}
    assert sizes.tres_text({"cpu": 1, "mem": 64000}) == "cpu=1,mem=62.50G"


def test_errors_have_slurms_words() -> None:
    refused = errors.SlurmError("INVALID_QOS")
    assert (refused.code, refused.message) == (2066, "Invalid qos specification")
