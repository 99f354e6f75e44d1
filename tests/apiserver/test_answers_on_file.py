"""One cluster asked a hundred things in order: each answer, whole, as it is on file.

What is another each time (uids, times, versions, tokens, keys) is told as its kind. Long answers, and those that say
of all there is, are told by their length and a digest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from apiserver_serving import Served, served
from tests.histories import check_history

HERE = Path(__file__).parent / "answers"
QUESTIONS = yaml.safe_load((HERE / "questions.yaml").read_text(encoding="utf-8"))
_LONG = 6000
_MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r'"resourceVersion": "\d+"'), '"resourceVersion": "N"'),
    (re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+"), "TOKEN"),
    (re.compile(r"-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----", re.DOTALL), "PEM"),
    (re.compile(r"LS0tLS1[\w+/=]+"), "PEM"),
    (re.compile(r'"(\d+[dhms])+"'), '"AGE"'),
    (re.compile(r'"(lag|now)Us": -?\d+'), '"US"'),
    (re.compile(r"\b(d-[a-z0-9]{10}|gen|j|s)-[a-z0-9]{5}\b"), r"\1-DRAWN"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
)


def test_no_answer_is_another(tmp_path: Path) -> None:
    with served(tmp_path / "data", paused=True) as api:
        api.until_ready()
        check_history(HERE / "answers.txt", _answers(api))


def _answers(api: Served) -> Iterator[str]:
    for question in QUESTIONS:
        method, path = question["ask"].split(" ", 1)
        code, said = api.ask(method, path, question.get("body"), headers=question.get("headers"))
        yield f"== {question['ask']}: {code}"
        yield from _told(said)


def _told(said: Any) -> Iterator[str]:
    if isinstance(said, dict) and "managedFields" in said.get("metadata", {}):
        # Those of one second are in the order of their times, which are another each time.
        said["metadata"]["managedFields"].sort(key=lambda one: str(one["manager"]) + str(one["fieldsV1"]))
    text = said if isinstance(said, str) else json.dumps(said, indent=1, sort_keys=True, ensure_ascii=False)
    for pattern, kind in _MASKS:
        text = pattern.sub(kind, text)
    if len(text) > _LONG:
        yield f"{len(text)} characters, {hashlib.sha256(text.encode()).hexdigest()[:12]}"
    else:
        yield from text.splitlines()
