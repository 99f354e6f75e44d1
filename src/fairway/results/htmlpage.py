"""The frame of an HTML page: one file with its styles, script and data inline, in light and dark.

A page needs no network. What its script finds in the data it makes lively; a page without pods or timelines has
none.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from importlib.resources import files
from typing import Any

from fairway.results.drawing import DARK, LIGHT
from fairway.results.svg import FONT

_PAGE_LIGHT = {
    "back": "#f5f7f9",
    "line": "#e1e6ea",
    "good": "#00754f",
    "good-back": "#def3ea",
    "bad": "#b3361b",
    "bad-back": "#fbe9e4",
}
_PAGE_DARK = {
    "back": "#0d1013",
    "line": "#272d34",
    "good": "#4fd3a3",
    "good-back": "#12352a",
    "bad": "#ff9575",
    "bad-back": "#3a1d15",
}


def page(title: str, body: str, data: dict[str, Any]) -> str:
    """`body` is HTML; `data` is what the script of the page reads: `charts`, `boxes`, `pods`, `heat`."""
    script = _asset("report.js")
    return _PAGE.format(
        title=escape(title),
        style=_style(),
        body=body,
        data=_inline_json(data),
        script=script,
        policy=_policy(script),
    )


def _policy(script: str) -> str:
    """The page runs its own script, loads nothing, sends nothing, and goes into nobody's frame: whatever a name in it
    says."""
    digest = base64.b64encode(hashlib.sha256(f"\n{script}\n".encode()).digest()).decode()
    allowed = f"script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · Fairway</title>
<style>
{style}
</style>
</head>
<body>
<main>
{body}
</main>
<div id="tip"></div>
<script type="application/json" id="data">{data}</script>
<script>
{script}
</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("fairway.results").joinpath("assets", name).read_text(encoding="utf-8")


def _inline_json(data: Any) -> str:
    """JSON that cannot end its script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _style() -> str:
    light = _variables({**LIGHT, **_PAGE_LIGHT, "font": FONT})
    dark = _variables({**DARK, **_PAGE_DARK})
    roles = "".join(f".f-{n}{{fill:var(--{n})}}.s-{n}{{stroke:var(--{n})}}" for n in LIGHT)
    return "\n".join(
        [
            f":root{{{light}}}",
            f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}",
            f"@media screen{{:root[data-theme=dark]{{{dark}}}}}",
            ":root[data-theme=light]{color-scheme:light}:root[data-theme=dark]{color-scheme:dark}",
            "text{font-family:var(--font)}polyline{fill:none;stroke-linejoin:round}",
            roles,
            _asset("report.css"),
        ]
    )


def _variables(values: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in values.items())
