"""What objects does this YAML text hold, and on which line does each field stand?

Values are built straight from the parser's events: no node tree, no recursion over untrusted depth, aliases
shared and counted, so that neither a deep file nor an alias bomb costs more than its own size. A text that is
broken in one document is still read in the others. This module knows YAML, not Kubernetes kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from fairway.kube.fieldpath import Path, TextProblem, value_text
from fairway.kube.yamlscalars import Scalar, ScalarError, key_text, plain_value, tagged_value

# Nested deeper than any Kubernetes object (OpenAPI schemas in CRDs reach about 40).
MAX_DEPTH = 128
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep: refused"
# Nodes that aliases may add to one document. A shared pod template has about 200.
MAX_ALIASED_NODES = 100_000
# Characters that they may add: a long text counts as what it is, not as one node.
MAX_ALIASED_CHARS = 4 * 1024 * 1024

# A file broken in more places than this is not read further: each costs a scan of the rest.
MAX_BROKEN_DOCUMENTS = 20

_MEMO_SIZE = 65_536
_SEPARATOR = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
_NO_KEY = object()
_MERGE = object()
_UNSEEN = object()
_ROOT_KINDS = (DocumentStartEvent, DocumentEndEvent)

Event = Any
NextEvent = Callable[[], Event]


@dataclass(slots=True)
class Document:
    """One document's value. `start` is the index of its first character; `item_starts` the (index, line) of
    each item of a top-level `items` list."""

    value: Any
    line: int
    start: int
    end: int
    item_starts: list[tuple[int, int]] = field(default_factory=list)


def read_documents(text: str) -> tuple[list[Document], list[TextProblem]]:
    """All documents of the text, empty ones left out, and what is wrong with the others."""
    documents: list[Document] = []
    problems: list[TextProblem] = []
    start, line = 0, 0
    while True:
        part = text[start:] if start else text
        try:
            documents.extend(_documents(part, start, line))
            return documents, problems
        except _Broken as broken:
            documents.extend(broken.before)
            problems.append(broken.problem)
            next_start = _next_document(text, start, broken.problem.line - 1 - line)
            if next_start is None or len(problems) >= MAX_BROKEN_DOCUMENTS:
                return documents, problems
            line += text.count("\n", start, next_start)
            start = next_start


def first_value(text: str) -> Any:
    """The first document's value; None: there is none. Raises: ValueError, saying on which line it is broken."""
    documents, problems = read_documents(text)
    if problems:
        raise ValueError(f"line {problems[0].line}: {problems[0].expected}")
    return documents[0].value if documents else None


class _Broken(Exception):
    """Reading stopped here. `before` holds the documents that were whole."""

    def __init__(self, problem: TextProblem, before: list[Document]) -> None:
        self.problem = problem
        self.before = before
        super().__init__(str(problem))


def _next_document(text: str, start: int, bad_line: int) -> int | None:
    """The index of the next `---` line, from the broken line on (0-based, counted from start)."""
    match = _SEPARATOR.search(text, _line_start(text, start, bad_line))
    if match is not None and match.start() == start:  # the separator this document began with
        match = _SEPARATOR.search(text, match.end())
    return match.start() if match else None


def new_parser(text: str) -> NextEvent:
    """The events of a text, from libyaml where PyYAML was built with it."""
    parser: Any = getattr(yaml, "CParser", None) or getattr(yaml, "CLoader", yaml.Loader)
    get_event: NextEvent = parser(text).get_event
    return get_event


def _documents(text: str, offset: int, line: int) -> list[Document]:
    builder = _Builder(offset, line)
    try:
        next_event = new_parser(text)
        while (event := next_event()) is not None:
            if isinstance(event, DocumentStartEvent):
                builder.read_document(next_event)
    except TextProblem as problem:
        raise _Broken(problem, builder.documents) from None
    except yaml.YAMLError as error:
        raise _Broken(_syntax_problem(error, text, line, builder.path()), builder.documents) from None
    return builder.documents


class _Builder:
    """Builds values from events. One per text; `_stack` holds the open containers around the current one."""

    def __init__(self, offset: int, line: int) -> None:
        self.documents: list[Document] = []
        self._offset = offset
        self._line = line
        self._memo: dict[str, Any] = {}
        self._stack: list[_Frame] = []
        self._frame = _Frame(None, None, 0)

    def path(self) -> Path:
        """Where in the current document we are."""
        steps: list[str | int] = []
        for frame in [*self._stack, self._frame]:
            if isinstance(frame.value, list):
                steps.append(len(frame.value))
            elif isinstance(frame.key, str):
                steps.append(frame.key)
        return tuple(steps)

    def read_document(self, next_event: NextEvent) -> None:
        """Reads up to the document's end and keeps its value unless it is empty."""
        self._anchors: dict[str, tuple[Any, int, int]] = {}
        self._nodes = self._chars = 0
        self._aliased = self._aliased_chars = 0
        self._stack = []
        root = self._frame = _Frame([], None, 0)
        document: Document | None = None
        while True:
            event = next_event()
            kind = type(event)
            if kind is DocumentEndEvent:
                break
            if document is None:
                mark = event.start_mark
                document = Document(None, mark.line + 1 + self._line, mark.index + self._offset, 0)
            if kind is ScalarEvent:
                self._scalar(event)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self._open({} if kind is MappingStartEvent else [], event, document)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self._close()
            elif kind is AliasEvent:
                self._alias(event)
        if document is not None and root.value[0] is not None:
            document.value = root.value[0]
            document.end = event.end_mark.index + self._offset
            self.documents.append(document)

    def _scalar(self, event: Event) -> None:
        self._nodes += 1
        text = event.value
        self._chars += len(text)
        if event.implicit[0] and event.tag is None:
            value = self._memo.get(text, _UNSEEN)
            if value is _UNSEEN:
                value = self._resolved(plain_value, event)
                if len(self._memo) >= _MEMO_SIZE:
                    self._memo.clear()
                self._memo[text] = value
            if text == "<<" and self._frame.key is _NO_KEY and type(self._frame.value) is dict:
                self._frame.key = _MERGE
                return
        elif event.tag is None or event.tag == "!":
            value = text
        else:
            value = self._resolved(lambda t: tagged_value(event.tag, t), event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1, len(text))
        self._place(value, event)

    def _resolved(self, resolve: Callable[[str], Scalar], event: Event) -> Scalar:
        try:
            return resolve(event.value)
        except ScalarError as error:
            raise self._problem(event, event.value[:60], str(error)) from None

    def _place(self, value: Any, event: Event) -> None:
        frame = self._frame
        container = frame.value
        if type(container) is list:
            container.append(value)
        elif frame.key is _NO_KEY:
            key = value if type(value) is str else self._key(value, event)
            if key in container:
                raise self._problem(
                    event, value_text(key), "duplicate key: this mapping has it already; keep one", step=key
                )
            frame.key = key
        elif frame.key is _MERGE:
            self._merge(frame, value, event)
            frame.key = _NO_KEY
        else:
            container[frame.key] = value
            frame.key = _NO_KEY

    def _key(self, value: Any, event: Event) -> str:
        if isinstance(value, (dict, list)):
            raise self._problem(event, "", "expected a field name: a list or mapping cannot be a key")
        try:
            return key_text(value)
        except ScalarError as error:
            raise self._problem(event, "null", str(error)) from None

    def _merge(self, frame: _Frame, value: Any, event: Event) -> None:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise self._problem(event, "<<", "expected a mapping, or a list of mappings, to merge")
        frame.merges = (*frame.merges, *sources)

    def _open(self, value: Any, event: Event, document: Document) -> None:
        stack = self._stack
        outer = self._frame
        if len(stack) == 2 and type(outer.value) is list and stack[1].key == "items":
            mark = event.start_mark
            document.item_starts.append((mark.index + self._offset, mark.line + 1 + self._line))
        if len(stack) >= MAX_DEPTH:
            raise TextProblem(
                event.start_mark.line + 1 + self._line,
                (),
                "",
                _TOO_DEEP,
            )
        self._nodes += 1
        stack.append(outer)
        self._frame = _Frame(value, event, self._nodes, self._chars)

    def _close(self) -> None:
        frame = self._frame
        for source in frame.merges:
            for key, value in source.items():
                frame.value.setdefault(key, value)
        self._frame = self._stack.pop()
        if frame.event.anchor is not None:
            nodes, chars = self._nodes - frame.nodes_before + 1, self._chars - frame.chars_before
            self._anchors[frame.event.anchor] = (frame.value, nodes, chars)
        self._place(frame.value, frame.event)

    def _alias(self, event: Event) -> None:
        known = self._anchors.get(event.anchor)
        if known is None:
            raise self._problem(
                event, f"*{event.anchor}", f"expected an anchor &{event.anchor} before this alias"
            )
        value, nodes, chars = known
        self._nodes += nodes
        self._chars += chars
        self._aliased += nodes
        self._aliased_chars += chars
        if self._aliased_chars > MAX_ALIASED_CHARS:
            why = f"aliases expand to more than {MAX_ALIASED_CHARS} characters: refused"
            raise self._problem(event, f"*{event.anchor}", why)
        if self._aliased > MAX_ALIASED_NODES:
            raise self._problem(
                event, f"*{event.anchor}", f"aliases expand to more than {MAX_ALIASED_NODES} nodes: refused"
            )
        self._place(value, event)

    def _problem(self, event: Event, value: str, expected: str, *, step: str | None = None) -> TextProblem:
        path = self.path() if step is None else (*self.path(), step)
        return TextProblem(event.start_mark.line + 1 + self._line, path[1:], value, expected)


class _Frame:
    """An open mapping or sequence; `key` is the field whose value comes next."""

    __slots__ = ("chars_before", "event", "key", "merges", "nodes_before", "value")

    def __init__(self, value: Any, event: Event, nodes_before: int, chars_before: int = 0) -> None:
        self.value = value
        self.event = event
        self.key: Any = _NO_KEY
        self.merges: tuple[dict[str, Any], ...] = ()
        self.nodes_before = nodes_before
        self.chars_before = chars_before


def _syntax_problem(error: yaml.YAMLError, text: str, line: int, path: Path) -> TextProblem:
    if isinstance(error, yaml.reader.ReaderError):
        position = error.position if isinstance(error.position, int) else 0
        bad = text.count("\n", 0, position) + 1
        return TextProblem(bad + line, (), "", f"expected text: {error.reason}")
    mark: Any = getattr(error, "problem_mark", None)
    if mark is None:
        mark = getattr(error, "context_mark", None)
    at: int = mark.line if mark is not None else 0
    begin = _line_start(text, 0, at)
    bad_line = text[begin:].partition("\n")[0] if begin < len(text) else ""
    problem = getattr(error, "problem", None) or str(error)
    if "maximum nesting depth" in problem:  # libyaml reads ahead and stops at 1,000 levels by itself
        return TextProblem(at + 1 + line, (), "", _TOO_DEEP)
    context = getattr(error, "context", None) or ""
    expected = f"expected valid YAML: {problem} {context}".rstrip()
    if "\t" in bad_line[: len(bad_line) - len(bad_line.lstrip())]:
        expected += " (YAML indents with spaces, never tabs)"
    value = value_text(bad_line.strip()[:60]) if bad_line.strip() else ""
    return TextProblem(at + 1 + line, path[1:], value, expected)


def _line_start(text: str, start: int, lines: int) -> int:
    """The index where the line stands that is so many lines below `start`."""
    at = start
    for _ in range(lines):
        at = text.find("\n", at) + 1
        if at == 0:
            return len(text)
    return at


def line_in_document(text: str, document: Document, path: Path) -> int:
    """The line of the field at this path, or of its nearest ancestor that stands in the text.

    Inside a `List` only the item's own lines are parsed again: O(item), not O(file).
    """
    starts = document.item_starts
    if len(path) >= 2 and path[0] == "items" and isinstance(path[1], int) and path[1] < len(starts):
        index, line = starts[path[1]]
        end = starts[path[1] + 1][0] if path[1] + 1 < len(starts) else document.end
        begin = text.rfind("\n", 0, index) + 1
        stop = text.rfind("\n", 0, end) + 1 if path[1] + 1 < len(starts) else end
        if text[begin:index].strip() == "-":  # in block style an item's lines are a list of their own
            return _find_line(text[begin:stop], line, (0, *path[2:]))
    return _find_line(text[document.start : document.end], document.line, path)


def _find_line(text: str, first_line: int, path: Path) -> int:
    found = first_line
    try:
        events = iter(new_parser(text), None)
        for event in events:
            if not isinstance(event, _ROOT_KINDS) and hasattr(event, "anchor"):
                for line in _descend(event, events, path):
                    found = first_line + line
                break
    except yaml.YAMLError:
        pass
    return found


def _descend(start: Event, events: Iterator[Event], path: Path) -> Iterator[int]:
    """The line of each step of the path that is found, outermost first."""
    while path:
        step, path = path[0], path[1:]
        found = _enter(start, events, step)
        if found is None:
            return
        line, start = found
        yield line


def _enter(start: Event, events: Iterator[Event], step: str | int) -> tuple[int, Event] | None:
    """Moves to the value at this step of the container just started: its line and its first event."""
    if isinstance(start, SequenceStartEvent):
        for index, event in enumerate(events):
            if isinstance(event, SequenceEndEvent):
                return None
            if index == step:
                return event.start_mark.line, event
            _skip(event, events)
    elif isinstance(start, MappingStartEvent):
        for key in events:
            if isinstance(key, MappingEndEvent):
                return None
            _skip(key, events)
            value = next(events)
            if isinstance(key, ScalarEvent) and _key_matches(key, step):
                mark: Any = key.start_mark
                return mark.line, value
            _skip(value, events)
    return None


def _key_matches(key: Event, step: str | int) -> bool:
    if key.value == step:
        return True
    return (
        bool(key.implicit[0])
        and key.value in ("y", "on", "n", "off", "yes", "no")
        and step in ("true", "false")
    )


def _skip(event: Event, events: Iterator[Event]) -> None:
    """Past the node that this event starts."""
    depth = isinstance(event, (SequenceStartEvent, MappingStartEvent))
    level = int(depth)
    while level:
        event = next(events)
        if isinstance(event, (SequenceStartEvent, MappingStartEvent)):
            level += 1
        elif isinstance(event, (SequenceEndEvent, MappingEndEvent)):
            level -= 1
