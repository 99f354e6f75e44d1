"""What is wrong with an object, as the API server would refuse it?

Three steps, as there: strict decoding (unknown fields, wrong types), defaulting, then the rules of the kind.
An object that cannot be decoded is not judged further.
"""

from __future__ import annotations

from fairway.kube import names, published
from fairway.kube.defaults import apply_defaults
from fairway.kube.kinds import BY_GROUP_KIND, group_kind, kind_named
from fairway.kube.objects import Obj, gk_of
from fairway.kube.problem import UNKNOWN_FIELD, Faults, Problem, invalid
from fairway.kube.schema.document import is_built_in
from fairway.kube.schema.misfits import misfits
from fairway.kube.schema.node import object_meta_schema, schema_for
from fairway.kube.validation.kinds.metadata import common_fields, object_meta, object_meta_update
from fairway.kube.validation.kinds.podupdates import resize
from fairway.kube.validation.kinds.registry import RULES
from fairway.kube.validation.training import check_training

# Groups of which all kinds are known: another kind in them is a mistake, not a custom resource.
_CLOSED_GROUPS = frozenset({"", "apps", "batch", "policy"})


def validate(obj: Obj) -> list[Problem]:
    """Everything wrong with the object, rules in CEL apart. Kinds without rules are only checked for their metadata."""
    problems = _check_version(obj)
    if problems:
        return problems
    if gk_of(obj) in published.kinds():
        return _check_published(obj)
    problems = check_shape(obj)
    if problems:
        return problems
    if gk_of(obj) in RULES:
        # Rules see the object as the API server does, after defaulting: a limit without a request has one.
        return created(apply_defaults(obj))
    out = Faults()
    if not _is_configuration(obj):
        any_metadata(obj, out)
    out.extend(check_training(obj))
    return out


def created(obj: Obj) -> list[Problem]:
    """What keeps a decoded and defaulted object of a kind with rules from being created."""
    out = Faults()
    gk = gk_of(obj)
    RULES[gk].created(obj, out)
    if not out:
        # Source: rest.BeforeCreate.
        object_meta(obj, out, namespaced=kind_named(gk).namespaced, rule=names.path_segment)
    return out


def changed(new: Obj, old: Obj, subresource: str = "", qos: tuple[str, str] = ("", "")) -> list[Problem]:
    """What keeps an object from becoming another one, through a subresource or not; both decoded and defaulted.

    `qos`: a pod's class now and as it would be; only a resize asks.
    """
    rules, out = RULES.get(gk_of(new)), Faults()
    common_fields(new, old, out, namespaced=kind_named(gk_of(new)).namespaced)
    if rules is None:
        object_meta_update(new, old, out)
    elif subresource == "resize":
        resize(new, old, out, qos)
    elif subresource:
        (getattr(rules, subresource, None) or object_meta_update)(new, old, out)
    else:
        rules.changed(new, old, out)
    return out


def _check_published(obj: Obj) -> list[Problem]:
    """A kind another project defines: its fields, what each may hold, then what that project's webhooks refuse."""
    from fairway.kube.schema.decoding import unknown_paths
    from fairway.kube.schema.structural import tree_of
    from fairway.kube.schema.values import validate_custom

    entry = published.entry(gk_of(obj), obj["apiVersion"].rpartition("/")[2])
    tree = tree_of(entry) if entry is not None else None
    problems = _check_loose_metadata(obj)
    if problems or tree is None:
        return problems
    problems = [Problem(path, None, UNKNOWN_FIELD, "") for path in unknown_paths(obj, tree)]
    if problems:
        return problems
    found = Faults()
    any_metadata(obj, found)
    filled = apply_defaults(obj)
    found += validate_custom(filled, tree)
    return found or check_training(filled)


def has_rules(gk: str) -> bool:
    return gk in RULES


def any_metadata(obj: Obj, out: Faults) -> None:
    """The metadata of a kind without rules of its own."""
    object_meta(obj, out, namespaced=kind_named(gk_of(obj)).namespaced)


def check_shape(obj: Obj) -> list[Problem]:
    """What keeps the object from being decoded."""
    schema = schema_for(obj["apiVersion"], obj["kind"])
    return _check_loose_metadata(obj) if schema is None else misfits(obj, schema)


def _check_version(obj: Obj) -> list[Problem]:
    """A kind in a version, or a group, that does not have it."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return [invalid(("apiVersion",), api_version, "expected text such as v1 or batch/v1")]
    group, _, version = api_version.rpartition("/")
    known = BY_GROUP_KIND.get(group_kind(api_version, kind))
    if known is not None:
        gk = known.group_kind
        if version in known.versions or (
            not is_built_in(known.group, known.kind) and gk not in published.kinds()
        ):
            return []
        expected = known.api_version
    elif group in _CLOSED_GROUPS:
        others = [k.api_version for k in BY_GROUP_KIND.values() if k.kind == kind and k.versions]
        expected = others[0] if others else ""
    else:
        return []
    hint = f"; expected {expected}" if expected else ""
    return [
        invalid(
            ("apiVersion",), api_version, f'no matches for kind "{kind}" in version "{api_version}"{hint}'
        )
    ]


def _is_configuration(obj: Obj) -> bool:
    """Files of components (`KubeSchedulerConfiguration`) are not objects and have no metadata."""
    return ".config.k8s.io/" in str(obj["apiVersion"]) or (
        str(obj["kind"]).endswith("Configuration") and "metadata" not in obj
    )


def _check_loose_metadata(obj: Obj) -> list[Problem]:
    """The shape of a custom kind's metadata; its other fields are free."""
    if obj.get("metadata") is None:
        return []
    return [p._replace(path=("metadata", *p.path)) for p in misfits(obj["metadata"], object_meta_schema())]
