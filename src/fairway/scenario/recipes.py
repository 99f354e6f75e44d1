"""A generator's recipe on its own: from a YAML file, or from values a command was given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.fieldpath import Path as FieldPath
from fairway.kube.located import Reading
from fairway.kube.manifest import Manifest
from fairway.kube.yamltext import line_in_document, read_documents
from fairway.scenario.tracereading import read_recipe
from fairway.traces.generate import Recipe


class _Lines:
    def __init__(self, text: str, document: Any) -> None:
        self._text, self._document = text, document

    def line_of(self, path: FieldPath) -> int:
        return line_in_document(self._text, self._document, path)


def recipe_from_file(path: Path) -> Recipe:
    """Raises: InvalidInput."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        expected = f"expected a readable YAML file ({unreadable})"
        raise InvalidInput((FieldProblem(str(path), 0, "", "", expected),)) from unreadable
    documents, problems = read_documents(text)
    if problems:
        bad = problems[0]
        raise InvalidInput((FieldProblem(str(path), bad.line, "", bad.value, bad.expected),))
    if len(documents) != 1:
        raise InvalidInput((FieldProblem(str(path), 0, "", "", "expected one document"),))
    manifest = Manifest(documents[0].value, str(path), _Lines(text, documents[0]))
    return _read(Reading(manifest), path.stem)


def recipe_from_values(values: dict[str, Any], source: str = "command line") -> Recipe:
    """Raises: InvalidInput."""
    return _read(Reading(Manifest(values, source)), str(values.get("name") or "job"))


def _read(reading: Reading, name: str) -> Recipe:
    recipe = read_recipe(reading.root(), name)
    reading.finish()
    return recipe
