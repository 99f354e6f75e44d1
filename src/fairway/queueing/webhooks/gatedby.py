"""What is wrong with the annotation that holds a job back until its gates are removed?

Source: pkg/util/webhook/validation_admissiongatedby.go; apimachinery validation.IsDomainPrefixedPath.
"""

from __future__ import annotations

import re

from fairway.kube import names
from fairway.kube.objects import Obj, annotations_of
from fairway.queueing.webhooks import faults as f
from fairway.queueing.webhooks.faults import Fault
from fairway.queueing.webhooks.metadata import ANNOTATIONS

GATED_BY = "kueue.x-k8s.io/admission-gated-by"
_PATH = f.at_key(ANNOTATIONS, GATED_BY)
_MAX_GATE = 63
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"


def gated_by_faults(new: Obj, old: Obj | None = None) -> list[Fault]:
    """New: the format. Changed: gates may only be removed."""
    value = annotations_of(new).get(GATED_BY) or ""
    if old is None:
        return _format_faults(value)
    was = annotations_of(old).get(GATED_BY) or ""
    out = []
    if not was and value:
        out.append(f.forbidden(_PATH, "cannot add admission gate after creation"))
    if was and value and any(gate not in _gates(was) for gate in _gates(value)):
        out.append(f.forbidden(_PATH, "can only remove gates, not add new ones"))
    return out + _format_faults(value)


def _gates(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")] if value.strip() else []


def _format_faults(value: str) -> list[Fault]:
    out = []
    seen: set[str] = set()
    for gate in _gates(value):
        if not gate:
            out.append(f.invalid(_PATH, value, "cannot contain empty gate names"))
        elif gate in seen:
            out.append(f.invalid(_PATH, value, f"duplicate gate name: {gate}"))
        else:
            seen.add(gate)
            out += _path_faults(gate)
            if len(gate) > _MAX_GATE:
                out.append(f.too_long(_PATH, _MAX_GATE))
    return out


def _path_faults(gate: str) -> list[Fault]:
    domain, slash, rest = gate.partition("/")
    if not slash or not domain or not rest:
        return [f.invalid(_PATH, gate, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    out = f.invalids(_PATH, domain, names.dns_subdomain(domain))
    if not re.fullmatch(_HTTP_PATH, rest):
        why = f"Invalid path (regex used for validation is '{_HTTP_PATH}')"
        out.append(f.invalid(_PATH, rest, why))
    return out
