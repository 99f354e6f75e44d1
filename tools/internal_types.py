"""Writes `src/fairway/kube/internaltypes.txt`: how kube-apiserver's internal types look as JSON.

    python tools/internal_types.py KUBERNETES

KUBERNETES is a checkout of kubernetes/kubernetes (v1.36). Messages show values of internal types, whose fields are
not those of the versioned ones: in Go's order, under Go's names, with everything that is not set. One line a type: its
name, then `GoName jsonName type` for every field; a type that has JSON names of its own (metav1) has `GoName` = the
JSON name, with `?` after it where an empty value is left out. Types: `*` pointer, `[]` list, `{}` map, then
`str int bool qty ios time any` or the name of a line.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_OUT = Path(__file__).parent.parent / "src/fairway/kube/internaltypes.txt"
_ROOTS = (
    "core.PodSpec",
    "core.PodTemplateSpec",
    "core.PersistentVolumeSource",
    "core.PersistentVolumeClaimSpec",
    "core.ServicePort",
    "core.Taint",
    "core.NodeAddress",
    "core.NodeConfigSource",
    "core.EphemeralContainer",
    "core.ScopeSelector",
    "core.Toleration",
    "core.ObjectReference",
    "core.EventSource",
    "core.HostIP",
    "core.PodIP",
    "core.VolumeNodeAffinity",
    "core.PodResourceClaim",
    "core.SeccompProfile",
    "apps.DeploymentStrategy",
    "apps.DaemonSetUpdateStrategy",
    "apps.StatefulSetUpdateStrategy",
    "batch.SuccessPolicy",
    "batch.PodFailurePolicy",
    "batch.UncountedTerminatedPods",
    "policy.PodDisruptionBudgetSpec",
    "storage.VolumeAttachmentSpec",
    "storage.CSINodeDriver",
    "networking.IngressRule",
    "networking.ServiceCIDRSpec",
    "networking.ParentReference",
    "rbac.RoleRef",
    "flowcontrol.FlowSchemaSpec",
    "flowcontrol.PriorityLevelConfigurationSpec",
    "flowcontrol.FlowDistinguisherMethod",
    "authorization.NonResourceAttributes",
    "admissionregistration.AuditAnnotation",
    "meta.LabelSelector",
    "meta.OwnerReference",
    "meta.ObjectMeta",
)
_VERSIONS = {"core": "core/v1", "flowcontrol": "flowcontrol/v1", "autoscaling": "autoscaling/v2"}
_PACKAGES = {"metav1": "meta", "api": "core", "v1": "core"}
_PLAIN = {
    "string": "str",
    "bool": "bool",
    "byte": "str",
    "interface{}": "any",
    "any": "any",
    "types.UID": "str",
    "types.NodeName": "str",
    "resource.Quantity": "qty",
    "intstr.IntOrString": "ios",
    **dict.fromkeys(("metav1.Time", "metav1.MicroTime", "meta.Time", "meta.MicroTime"), "time"),
    **dict.fromkeys(("metav1.FieldsV1", "meta.FieldsV1"), "any"),
    "runtime.RawExtension": "any",
    **dict.fromkeys(("int", "int8", "int16", "int32", "int64", "float64"), "int"),
}
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) (=? ?[\w.\[\]*]+)$", re.MULTILINE)
_FIELD = re.compile(r"^\t(\w+)(?:, \w+)*\s+([\w.\[\]*{}]+)(?:\s+`(.*)`)?")
_EMBEDDED = re.compile(r"^\t([\w.]+)(?:\s+`(.*)`)?\s*$")
# A type without a package is the file's own.
_LOCAL = re.compile(r"(?<![\w.])([A-Z]\w*)$")
_TAG = re.compile(r'json:"([^"]*)"')

Fields = list[tuple[str, str, str]]


def main() -> None:
    root = Path(sys.argv[1])
    groups = {name.partition(".")[0] for name in _ROOTS} - {"meta"}
    structs: dict[str, Fields] = {}
    plain: dict[str, str] = {}
    tags: dict[str, dict[str, str]] = {}
    for group in sorted(groups | {"core"}):
        _read(root / f"pkg/apis/{group}/types.go", group, structs, plain)
        versioned = root / "staging/src/k8s.io/api" / _VERSIONS.get(group, f"{group}/v1") / "types.go"
        tags.update(_tags(versioned, group))
    _read(root / "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go", "meta", structs, plain)
    anywhere = {go: json for tagged in tags.values() for go, json in tagged.items()}
    lines, queue, done = [], list(_ROOTS), set(_ROOTS)
    while queue:
        name = queue.pop(0)
        fields = []
        for go, json, kind in _flat(name, structs):
            shown = _type(kind, name.partition(".")[0], plain)
            # An embedded type's fields are looked for by their Go name alone.
            json = json or tags.get(name, {}).get(go) or anywhere.get(go) or go[0].lower() + go[1:]
            fields.append(f"{go} {json} {shown}")
            base = shown.lstrip("*[]{}")
            if "." in base and base not in done:
                done.add(base)
                queue.append(base)
        lines.append(f"{name}: {', '.join(fields)}")
    _OUT.write_text("\n".join(sorted(lines)) + "\n")


def _read(file: Path, group: str, structs: dict[str, Fields], plain: dict[str, str]) -> None:
    text = file.read_text()
    for name, body in _STRUCT.findall(text):
        fields = _fields(body)
        structs[f"{group}.{name}"] = [
            (go, json, _LOCAL.sub(rf"{group}.\1", kind)) for go, json, kind in fields
        ]
    for name, kind in _NAMED.findall(text):
        plain[f"{group}.{name}"] = kind.lstrip("= ")


def _fields(body: str) -> Fields:
    """Embedded types have no Go name; fields with JSON names of their own have them as Go name."""
    found: Fields = []
    for line in body.split("\n"):
        embedded, field = _EMBEDDED.match(line), _FIELD.match(line)
        if embedded:
            found.append(("", "", embedded[1]))
        elif field:
            tag = _TAG.search(field[3] or "")
            name, _, options = tag[1].partition(",") if tag else (field[1], "", "")
            if name == "-" or (tag and "inline" in options):
                continue
            found.append((name + ("?" if "omitempty" in options else ""), name if tag else "", field[2]))
    return found


def _flat(name: str, structs: dict[str, Fields]) -> Fields:
    out: Fields = []
    for go, json, kind in structs[name]:
        if go:
            out.append((go, json, kind))
            continue
        package, _, local = kind.rpartition(".")
        group = _PACKAGES.get(package, package) or name.partition(".")[0]
        if local == "ObjectMeta":
            out.extend(_flat("meta.ObjectMeta", structs))
        elif local not in ("TypeMeta", "ListMeta"):
            out.extend(_flat(f"{group}.{local}", structs))
    return out


def _tags(file: Path, group: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for name, body in _STRUCT.findall(file.read_text()):
        tagged = {}
        for line in body.split("\n"):
            field, tag = _FIELD.match(line), _TAG.search(line)
            if field and tag and tag[1].partition(",")[0]:
                tagged[field[1]] = tag[1].partition(",")[0]
        found[f"{group}.{name}"] = tagged
    return found


def _type(kind: str, group: str, plain: dict[str, str]) -> str:
    for go, short in (("*", "*"), ("[]byte", ""), ("[]", "[]")):
        if kind.startswith(go):
            return short + _type(kind[len(go) :], group, plain) if short else "*str"
    if kind.startswith("map["):
        return "{}" + _type(kind.partition("]")[2], group, plain)
    if kind in _PLAIN:
        return _PLAIN[kind]
    package, _, local = kind.rpartition(".")
    name = f"{_PACKAGES.get(package, package) or group}.{local}"
    return _type(plain[name], name.partition(".")[0], plain) if name in plain else name


if __name__ == "__main__":
    main()
