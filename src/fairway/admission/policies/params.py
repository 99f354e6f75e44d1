"""Which parameter objects a binding hands to its policy.

Source: apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go CollectParams (v1.36).
"""

from __future__ import annotations

from typing import Any

from fairway.cluster.actions import View
from fairway.kube.kinds import BY_GROUP_KIND, group_kind
from fairway.kube.labels import label_selector
from fairway.kube.objects import Key, Obj, labels_of

CRD = "CustomResourceDefinition.apiextensions.k8s.io"


class ParamsError(ValueError):
    """The binding or policy is configured wrongly; the text says how."""


def collect(view: View, kind: Obj | None, ref: Obj | None, namespace: str) -> list[Obj | None]:
    """One evaluation per object; [None] where the policy takes none.

    Raises: ParamsError.
    """
    if not kind or not ref:
        return [None]
    gk = group_kind(kind.get("apiVersion") or "", kind.get("kind") or "")
    is_namespaced = _scope(view, gk, kind)
    home = _home(ref, namespace) if is_namespaced else ""
    if not is_namespaced and ref.get("namespace"):
        raise ParamsError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
    found = _found(view, gk, ref, home)
    if not found and ref.get("parameterNotFoundAction") == "Deny":
        raise ParamsError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return list(found)


def _home(ref: Obj, namespace: str) -> str:
    home = str(ref.get("namespace") or namespace)
    if not home:
        raise ParamsError(
            "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
        )
    return home


def _found(view: View, gk: str, ref: Obj, home: str) -> list[Obj]:
    if ref.get("name"):
        if ref.get("selector") is not None:
            raise ParamsError("paramRef.name and paramRef.selector are mutually exclusive")
        one = view.get(Key(gk, home, ref["name"]))
        return [] if one is None else [one]
    if ref.get("selector") is None:
        raise ParamsError("one of name or selector must be provided")
    selector = label_selector(ref["selector"])
    return [obj for obj in view.objects(gk, home or None) if selector.matches(labels_of(obj))]


def _scope(view: View, gk: str, kind: Obj) -> bool:
    known = BY_GROUP_KIND.get(gk)
    if known is not None:
        return known.namespaced
    for crd in view.objects(CRD):
        spec: dict[str, Any] = crd.get("spec") or {}
        if group_kind(f"{spec.get('group')}/v1", (spec.get("names") or {}).get("kind", "")) == gk:
            return spec.get("scope") != "Cluster"
    said = f"&ParamKind{{APIVersion:{kind.get('apiVersion')},Kind:{kind.get('kind')},}}"
    raise ParamsError(f"paramKind kind `{said}` not known")
