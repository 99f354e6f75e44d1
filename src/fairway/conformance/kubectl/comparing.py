"""When do two runs of one kubectl command say the same?

Ages, addresses, UIDs, versions and hash suffixes differ from run to run of the real thing as well, and with their
length the width of a table's columns. Three more depend on chance there: how often `rollout status` says that it
waits, how often an event was counted, and the order in which Go walks a map (`describe limitrange`).

Source for the last: kubectl pkg/describe/describe.go describeLimitRangeSpec (v1.32): `for k := range set`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# What names are made of at random. Source: apimachinery util/rand.
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_VARIABLE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\beyJ[\w-]+\.[\w-]+\.[\w-]+"), "‹token›"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "‹uid›"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "‹time›"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? [+-]\d{4}"), "‹time›"),
    (re.compile(r"[\w/$.{}-]*/(LIVE|MERGED)(-\d+)?(?=/)"), r"‹folder›/\1"),
    (re.compile(r"\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "‹time›"),
    (re.compile(r"\bhttps?://[\w.\-\[\]:]+:\d+"), "‹url›"),
    (re.compile(r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(:\d+|/\d+)?\b"), "‹address›"),
    (re.compile(r'("?(?:resourceVersion|uid)"?: ?)"?[\w-]+"?'), r"\1‹version›"),
    (re.compile(r"\bv\d+\.\d+\.\d+[\w.+-]*"), "‹version›"),
    (re.compile(rf"(pod-template-hash[\"':=]+ ?\"?)[{_SAFE}]{{5,10}}\b"), r"\1‹hash›"),
    (re.compile(rf"-[{_SAFE}]{{8,10}}-[{_SAFE}]{{5}}\b"), "-‹hash›"),
    (re.compile(rf"-[{_SAFE}]{{8,10}}\b(?!-)"), "-‹hash›"),
    (re.compile(rf"-[{_SAFE}]{{5}}\b(?!-)"), "-‹hash›"),
    (re.compile(r"\(x\d+ over [\w.<>]+\)"), ""),
    (re.compile(r"<invalid>|\b(\d+(ms|[smhdy]))+\b(?![\w.-])"), "‹age›"),
)
_SPACES = re.compile(r"[ \t]{2,}")
_WAITING = re.compile(r"^(Waiting for .*|.* replicas? .* are available\.\.\.)\n", re.MULTILINE)
_LIMIT_RANGE = re.compile(r"\bdescribe\s+(limitranges?|limits|namespaces?|ns)\b")


def is_same(command: str, recorded: str, found: str) -> bool:
    """Whether both outputs say the same, but for what differs from run to run."""
    if recorded == found:
        return True
    reading = _reading(command)
    before, now = reading(recorded), reading(found)
    if before == now:
        return True
    if _is_any_order(command, before):
        return sorted(before.splitlines()) == sorted(now.splitlines())
    return False


def _reading(command: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if "rollout status" in command:
            text = _WAITING.sub("", text)
        shown = _plain(text)
        # A node without a network gives its pods no address.
        return shown.replace("<none>", "‹address›") if "-o wide" in command else shown

    return read


def _plain(text: str) -> str:
    """The text with variable parts by name; columns two spaces apart where their widths vary with those."""
    shown = text
    for pattern, name in _VARIABLE:
        shown = pattern.sub(name, shown)
    if shown == text and "AGE" not in text:
        return shown
    return "\n".join(_SPACES.sub("  ", line).rstrip() for line in shown.split("\n"))


def _is_any_order(command: str, text: str) -> bool:
    """Rows sorted by a random name come in any order, and so do those of a Go map."""
    return "-‹hash›" in text or _LIMIT_RANGE.search(command) is not None
