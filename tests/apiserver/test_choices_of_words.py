"""Small words that clients rely on: paths of columns, orders of versions, sets of fields, who holds what."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.converting import for_storage, stored_version
from fairway.apiserver.patching import fieldset
from fairway.apiserver.resources import Resources, version_order
from fairway.apiserver.selecting import Selection, pinned_name
from fairway.apiserver.tables.jsonpath import JsonPathError, find
from fairway.kube.kinds import BY_GROUP_KIND
from fairway.kube.labelparsing import parse_selector
from fairway.kube.labels import EVERYTHING, FieldTerm
from fairway.kube.objects import Obj

OBJ: Obj = {
    "a": {"b": [1, 2, 3], "c.d": "dotted", "e/f": 0, "*": "star"},
    "list": [
        {"type": "Ready", "n": 1, "deep": {"x": True}},
        {"type": "Other", "n": 2, "deep": {"x": False}},
        {"n": 3},
        "text",
    ],
    "none": None,
}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (".a.b", [[1, 2, 3]]),
        ("a.b", [[1, 2, 3]]),
        (".", [OBJ]),
        ("", [OBJ]),
        (".a.b[0]", [1]),
        (".a.b[-1]", [3]),
        (".a.b[2]", [3]),
        (".a.b[3]", []),
        (".a.b[-3]", [1]),
        (".a.b[-4]", []),
        (".a.b[*]", [1, 2, 3]),
        (".a.b.*", [1, 2, 3]),
        (".a[0]", []),
        (".a.b[*].x", []),
        (".a['c.d']", ["dotted"]),
        (".a.['c.d']", ["dotted"]),
        (r".a.c\.d", ["dotted"]),
        (r".a['e/f']", [0]),
        ("['a']['b'][1]", [2]),
        (".a['*']", [[1, 2, 3], "dotted", 0, "star"]),
        (".list[*].n", [1, 2, 3]),
        ('.list[?(@.type=="Ready")].n', [1]),
        (".list[?(@.type=='Ready')].n", [1]),
        (".list[?(@.type != 'Ready')].n", [2, 3]),
        (".list[?(@.type==Other)].n", [2]),
        (".list[?(@.n==2)].type", ["Other"]),
        (".list[?(@.deep.x==true)].n", [1]),
        (".list[?(@.deep.x!=true)].n", [2, 3]),
        (".a.b[?(@==2)]", [2]),
        (".a.b[?(@!=2)]", [1, 3]),
        (".none", [None]),
        (".none.x", []),
        (".missing", []),
        (".a.b.c", []),
    ],
)
def test_where_a_path_leads(path: str, want: list[Any]) -> None:
    assert find(OBJ, path) == want


@pytest.mark.parametrize("path", ["..a", ".a..b", ".a[x]", ".a[", "a b]c[", ".a[?(@.x>1)]"])
def test_paths_of_no_column(path: str) -> None:
    with pytest.raises(JsonPathError, match="unrecognized column definition"):
        find(OBJ, path)


def test_versions_stand_as_kubernetes_lists_them() -> None:
    """The order of its own documentation of CustomResourceDefinitions' versions."""
    listed = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
    for i in range(len(listed)):
        assert sorted(listed[i:] + listed[:i], key=version_order) == listed


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ("metadata.name=a", "a"),
        ("metadata.namespace=x,metadata.name=a", "a"),
        ("metadata.name!=a", ""),
        ("metadata.namespace=x", ""),
        ("metadata.name!=a,metadata.name=b", "b"),
        ("metadata.name=.", ""),
        ("metadata.name=..", ""),
        ("metadata.name=...", "..."),
        ("metadata.name=a/b", ""),
        ("metadata.name=a%b", ""),
        ("metadata.name", ""),
        ("", ""),
    ],
)
def test_which_one_name_a_field_selector_leaves(fields: str, name: str) -> None:
    assert pinned_name(fields) == name


def test_a_selection_of_all_has_neither_name_nor_labels_nor_fields() -> None:
    labels, fields = parse_selector("a=b"), (FieldTerm("status.phase", False, "Running"),)
    whole = Selection("team", "", EVERYTHING, ())
    assert whole.is_all
    one = {
        "metadata": {"namespace": "team", "name": "p", "labels": {"a": "b"}},
        "status": {"phase": "Running"},
    }
    other = {"metadata": {"namespace": "x", "name": "q"}}
    for selected in (
        whole._replace(name="p"),
        whole._replace(labels=labels),
        whole._replace(fields=fields),
        whole._replace(namespace="", name="p"),
    ):
        assert not selected.is_all
        assert selected.matches(one) and not selected.matches(other)
    assert whole.matches(one) and not whole.matches(other)
    assert whole._replace(namespace="").matches(other)


def definition(name: str, *versions: str, group: str = "example.com", **spec: Any) -> Obj:
    names = {"plural": f"{name.lower()}s", "kind": name, **spec.pop("names", {})}
    return {
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": spec.pop("scope", "Namespaced"),
            "versions": [{"name": v, "served": v != "v9", "storage": v == versions[0]} for v in versions],
        },
        "status": {"conditions": [{"type": "Established", "status": spec.pop("established", "True")}]},
    }


def test_a_custom_object_is_kept_in_one_version_with_its_defaults() -> None:
    """Where that version has a schema: a definition of old may have none."""
    made = definition("Mule", "v1", "v2")
    bare = definition("Ox", "v1", "v2")
    size = {"type": "integer", "default": 3}
    spec = {"type": "object", "properties": {"size": size}}
    for version in made["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    resources = Resources()
    resources.set_definitions([made, bare])
    try:
        for kind, want in (("Mule", {"size": 3}), ("Ox", {})):
            for version in ("v1", "v2"):
                resource = resources.find(
                    "example.com", version, f"{kind.lower()}s" if kind == "Mule" else "oxs"
                )
                assert resource is not None and stored_version(resource) == "example.com/v1"
                obj: Obj = {"apiVersion": f"example.com/{version}", "kind": kind, "metadata": {}, "spec": {}}
                kept = for_storage(obj, resource)
                assert kept == {
                    **obj,
                    "apiVersion": "example.com/v1",
                    "spec": {} if version == "v1" else want,
                }
    finally:
        resources.set_definitions([])


def test_kinds_are_served_while_their_definition_is() -> None:
    # Kinds are one process's: those of a server that ran before go.
    Resources().set_definitions([])
    resources, before = Resources(), dict(BY_GROUP_KIND)
    start = resources.generation
    mule = definition(
        "Mule", "v1alpha1", "v2", "v9", group="mules.io", names={"shortNames": ["mu"], "categories": ["all"]}
    )
    lone = definition("Lone", "v1", group="b.io", scope="Cluster", names={"singular": "alone"})
    new = definition("New", "v1", group="mules.io", established="False")
    mule["spec"]["versions"][0]["subresources"] = {"status": {}}
    mule["spec"]["versions"][1]["subresources"] = {"status": {}, "scale": {}}
    try:
        resources.set_definitions([mule, lone, new])
        assert resources.generation == start + 1
        found = resources.find("mules.io", "v2", "mules")
        older = resources.of_kind("mules.io/v1alpha1", "Mule")
        assert found is not None and older is not None
        assert (found.kind.versions, found.kind.namespaced, found.singular) == (
            ("v2", "v1alpha1"),
            True,
            "mule",
        )
        assert (found.kind.short_names, found.categories) == (("mu",), ("all",))
        assert [s.name for s in found.subresources] == ["scale", "status"]
        assert [s.name for s in older.subresources] == ["status"]
        assert resources.find("mules.io", "v9", "mules") is None
        assert resources.find("mules.io", "v1", "news") is None
        alone = resources.find("b.io", "v1", "lones")
        assert alone is not None and (alone.kind.namespaced, alone.singular) == (False, "alone")
        assert [r.kind.plural for r in resources.of_group("mules.io", "v2")] == ["mules"]
        assert resources.preferred["mules.io"] == ["v2", "v1alpha1"]
        groups = list(resources.preferred)
        assert groups[0] == "" and groups[-1] == "metrics.k8s.io"
        assert groups.index("b.io") < groups.index("mules.io")
        assert BY_GROUP_KIND["Mule.mules.io"] is found.kind
    finally:
        resources.set_definitions([])
    assert before == BY_GROUP_KIND
    assert resources.find("mules.io", "v2", "mules") is None
    assert resources.of_kind("apps/v1", "Deployment") is not None
    assert resources.of_kind("apps/v1", "Pod") is None and resources.of_kind("apps/v2", "Deployment") is None


@pytest.mark.parametrize(
    ("value", "is_set"),
    [
        ({}, True),
        ({"f:spec": {"f:a": {}, ".": {}}}, True),
        ({"f:spec": None}, False),
        ({"f:spec": []}, False),
        ({"g:spec": {}}, False),
        ({"i:0": {}, "i:-1": {}}, True),
        ({"i:x": {}}, False),
        ({"i:": {}}, False),
        ({"i:²": {}}, False),
        ({'k:{"name":"c"}': {}}, True),
        ({'k:"name"': {}}, False),
        ({"k:{": {}}, False),
        ({'v:"x"': {}, "v:1": {}}, True),
        ({"v:x": {}}, False),
        ([], False),
        (None, False),
    ],
)
def test_what_is_a_set_of_fields(value: Any, is_set: bool) -> None:
    assert fieldset.is_field_set(value) is is_set


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:c", 'k:{"name":"a"}', "f:image"), '.c[name="a"].image'),
        (("f:p", 'k:{"protocol":"TCP","containerPort":80}'), '.p[containerPort=80,protocol="TCP"]'),
        (("f:s", 'v:"x"'), '.s[="x"]'),
        (("f:s", 'v:{"b":[1,2]}'), '.s[={"b":[1,2]}]'),
        (("f:l", "i:3"), ".l[3]"),
        ((), ""),
    ],
)
def test_how_a_conflict_names_a_field(path: tuple[str, ...], want: str) -> None:
    assert fieldset.path_text(path) == want
