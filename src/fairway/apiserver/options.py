"""Which options of a request are refused? Those of lists and watches, and those of writes.

Source: apimachinery pkg/apis/meta/internalversion/validation/validation.go, pkg/apis/meta/v1/validation/validation.go
(v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fairway.apiserver.asking import Ask
from fairway.apiserver.statuses import bad_request, invalid_of
from fairway.kube.integers import integer

_GROUP: Final = "meta.k8s.io"
_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"
_MANAGER_BYTES: Final = 128
_VALIDATIONS: Final = ("", "Ignore", "Strict", "Warn")
_KINDS: Final = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
_APPLY: Final = ("application/apply-patch+yaml", "application/apply-patch+cbor")
DELETIONS: Final = ("Foreground", "Background", "Orphan")
_NUMBERS: Final = ("timeoutSeconds", "limit")


def check_list(ask: Ask) -> None:
    """Raises: StatusError (400 for what is no number; 422)."""
    from fairway.kube.problem import Faults

    request, found = ask.request, Faults()
    for name in _NUMBERS:
        check_integer(request.option(name))
    at, match = ("resourceVersionMatch",), request.option("resourceVersionMatch")
    version, is_initial = request.option("resourceVersion"), "sendInitialEvents" in request.query
    if ask.info.verb == "watch":
        if is_initial and match != _NOT_OLDER:
            found.forbidden(at, f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}")
        if match and not is_initial:
            found.forbidden(
                at, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
        if match and match != _NOT_OLDER:
            found.unsupported(at, match, (_NOT_OLDER,))
    elif match and not version:
        found.forbidden(at, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match and request.option("continue"):
        found.forbidden(at, "resourceVersionMatch is forbidden when continue is provided")
    if ask.info.verb != "watch":
        if match and match not in (_EXACT, _NOT_OLDER):
            found.unsupported(at, match, (_EXACT, _NOT_OLDER, ""))
        if match == _EXACT and version == "0":
            found.forbidden(at, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
        if is_initial:
            found.forbidden(("sendInitialEvents",), "sendInitialEvents is forbidden for list")
    _refuse("ListOptions", found)


def check_integer(text: str) -> None:
    """Raises: StatusError (400)."""
    if text and integer(text) is None:
        digits = text.lstrip("+-")
        why = "value out of range" if digits.isascii() and digits.isdigit() else "invalid syntax"
        raise bad_request(f'strconv.ParseInt: parsing "{text}": {why}')


def check_write(ask: Ask) -> None:
    """Raises: StatusError (422)."""
    verb, request = ask.info.verb, ask.request
    if verb not in _KINDS:
        # Deletions have them in their body, too.
        return
    media = request.header("content-type").partition(";")[0].strip()
    is_apply = verb == "patch" and media in _APPLY
    if not request.raw_query and not is_apply:
        return
    from fairway.kube.problem import Faults

    found, manager = Faults(), request.option("fieldManager")
    if is_apply and not manager:
        found.required(("fieldManager",), "is required for apply patch")
    if verb == "patch" and not is_apply and "force" in request.query:
        found.forbidden(("force",), "may not be specified for non-apply patch")
    if len(manager.encode()) > _MANAGER_BYTES:
        found.too_long(("fieldManager",), _MANAGER_BYTES)
    place = 0
    for char in manager:
        if not char.isprintable():
            said = f"invalid character U+{ord(char):04X} (at position {place})"
            found.invalid(("fieldManager",), manager, said)
        place += len(char.encode())
    dry_run(request.query.get("dryRun", ()), found)
    if request.option("fieldValidation") not in _VALIDATIONS:
        found.unsupported(("fieldValidation",), request.option("fieldValidation"), _VALIDATIONS)
    _refuse(_KINDS[verb], found)


def check_deletion(raw: dict[str, Any]) -> None:
    """Raises: StatusError (422)."""
    from fairway.kube.problem import Faults

    at, found = ("propagationPolicy",), Faults()
    policy = raw.get("propagationPolicy")
    if raw.get("orphanDependents") is not None and policy is not None:
        found.invalid(at, policy, "orphanDependents and deletionPropagation cannot be both set")
    if policy is not None and policy not in DELETIONS:
        found.unsupported(at, policy, (*DELETIONS, "nil"))
    dry_run(raw.get("dryRun") or (), found)
    _refuse("DeleteOptions", found)


def dry_run(values: Sequence[str], found: Any) -> None:
    if any(value != "All" for value in values):
        found.unsupported(("dryRun",), list(values), ("All",))


def _refuse(kind: str, found: Any) -> None:
    if found:
        raise invalid_of(_GROUP, kind, "", found)
