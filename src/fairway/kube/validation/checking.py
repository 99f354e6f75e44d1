"""Which of these manifests are fit to use, and what is wrong with the others, line by line?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.fieldpath import path_text, value_text
from fairway.kube.kinds import kind_named
from fairway.kube.manifest import MAX_PROBLEMS, Manifest, capped
from fairway.kube.objects import Key, Obj, gk_of, key_of
from fairway.kube.problem import OMITTED, UNKNOWN_FIELD, Problem
from fairway.kube.validation.validating import validate


@dataclass(frozen=True, slots=True)
class Checked:
    """`objects` in the order they were read, cluster-scoped ones without a namespace.

    `skipped` counts the objects left out (lenient only)."""

    objects: list[Obj]
    problems: tuple[FieldProblem, ...]
    skipped: int


def check(manifests: Iterable[Manifest], *, lenient: bool = False) -> Checked:
    """Validates all manifests and looks for objects that are there twice (the first one stays).

    `problems` is capped at 50, with a last line that counts the rest; `skipped` is exact.
    Raises: InvalidInput with every problem, unless lenient.
    """
    listed = list(manifests)
    repeated = _repeats(listed)
    objects: list[Obj] = []
    problems: list[FieldProblem] = []
    for index, manifest in enumerate(listed):
        found = _problems_of(manifest, listed, repeated.get(index), len(problems))
        if found:
            problems.extend(found)
        else:
            objects.append(without_stray_namespace(manifest.obj))
    if problems and not lenient:
        raise InvalidInput(capped(problems))
    return Checked(objects, capped(problems), len(listed) - len(objects))


def _problems_of(
    manifest: Manifest, listed: list[Manifest], first: int | None, already: int
) -> list[FieldProblem]:
    if manifest.broken is not None:
        return [manifest.broken]
    found = validate(manifest.obj)
    # Lines are looked up only for problems that will be shown: each costs a walk through its text.
    located = [field_problem(manifest, p, locate=already + n < MAX_PROBLEMS) for n, p in enumerate(found)]
    if first is not None:
        is_shown = already + len(located) < MAX_PROBLEMS
        located.append(_repeat_problem(manifest, listed[first], locate=is_shown))
    return located


def find_duplicates(manifests: Iterable[Manifest]) -> list[FieldProblem]:
    """Objects whose kind, namespace and name another one has already; each names the place of the first."""
    listed = list(manifests)
    return [
        _repeat_problem(listed[index], listed[first], locate=n < MAX_PROBLEMS)
        for n, (index, first) in enumerate(_repeats(listed).items())
    ]


def _repeats(manifests: list[Manifest]) -> dict[int, int]:
    """Index of a repeated object → index of the first with its key."""
    seen: dict[Key, int] = {}
    repeats: dict[int, int] = {}
    for index, manifest in enumerate(manifests):
        try:
            key = _landed_key(manifest.obj)
            if not key.name:
                continue
            first = seen.setdefault(key, index)
        except (AttributeError, TypeError):
            continue  # metadata of the wrong type: validation says so
        if first != index:
            repeats[index] = first
    return repeats


def _landed_key(obj: Obj) -> Key:
    """The key the object will have: without a namespace it lands in `default`."""
    key = key_of(obj)
    return key._replace(namespace=key.namespace or "default" if kind_named(key.gk).namespaced else "")


def without_stray_namespace(obj: Obj) -> Obj:
    """The object; of a cluster-scoped kind, without the namespace it may carry (the API server drops it)."""
    meta = obj.get("metadata")
    if not meta or not meta.get("namespace") or kind_named(gk_of(obj)).namespaced:
        return obj
    return {**obj, "metadata": {k: v for k, v in meta.items() if k != "namespace"}}


def _repeat_problem(manifest: Manifest, first: Manifest, *, locate: bool) -> FieldProblem:
    key = _landed_key(manifest.obj)
    first_line = first.line if locate else 0
    where = f"{first.file}:{first_line}" if first_line else first.file
    expected = f"Duplicate object: {key} is already defined at {where}"
    line = manifest.line_of(("metadata", "name")) if locate else 0
    return FieldProblem(
        manifest.file, line, "metadata.name", value_text(key.name), expected, subject_of(manifest.obj)
    )


def field_problem(manifest: Manifest, problem: Problem, *, locate: bool = True) -> FieldProblem:
    """The problem with its place in the file."""
    line = manifest.line_of(problem.path) if locate else 0
    if problem.reason == UNKNOWN_FIELD:
        return FieldProblem(manifest.file, line, "", "", str(problem), subject_of(manifest.obj))
    value = "" if problem.value in ("", None, OMITTED) else value_text(problem.value)
    path = path_text(problem.path)
    return FieldProblem(manifest.file, line, path, value, problem.expected, subject_of(manifest.obj))


def subject_of(obj: Obj) -> str:
    """What a message calls the object: `Pod team-a/trainer`."""
    meta = obj.get("metadata")
    kind = str(obj.get("kind"))
    if not isinstance(meta, dict):
        return kind
    name = meta.get("name") or meta.get("generateName") or ""
    namespace = meta.get("namespace")
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}".strip()
