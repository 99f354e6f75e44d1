"""Many manifests at once: what is fit to use, and where the others go wrong."""

from __future__ import annotations

import pytest
from validationworld import pod

from fairway.errors import InvalidInput
from fairway.kube.manifest import read_text, write_json, write_yaml
from fairway.kube.validation.checking import check, find_duplicates

TEXT = """apiVersion: v1
kind: Pod
metadata:
  name: fine
spec:
  containers:
  - {name: c, image: i}
---
apiVersion: v1
kind: Pod
metadata:
  name: half
  namespace: team-a
spec:
  containers:
  - name: c
    image: i
    resources:
      limits:
        nvidia.com/gpu: 500m
---
apiVersion: v1
kind: Pod
metadata: {name: typo}
spec:
  container: []
---
apiVersion: v1
kind: Pod
metadata:
  namespace: default
  name: fine
spec:
  containers:
  - {name: c, image: i}
"""

WANT = (
    'f.yaml:20: Pod team-a/half: spec.containers[0].resources.limits[nvidia.com/gpu]: "500m": must be an integer',
    "f.yaml:18: Pod team-a/half: spec.containers[0].resources.requests[nvidia.com/gpu]: "
    '"500m": must be an integer',
    'f.yaml:26: Pod typo: unknown field "spec.container", did you mean "containers"?',
    'f.yaml:32: Pod default/fine: metadata.name: "fine": Duplicate object: Pod/default/fine is already defined '
    "at f.yaml:1",
)


def test_every_problem_is_told_with_file_line_path_value_and_expectation() -> None:
    with pytest.raises(InvalidInput) as caught:
        check(read_text(TEXT, "f.yaml"))
    assert tuple(str(p) for p in caught.value.problems) == WANT
    assert caught.value.exit_code == 2


def test_lenient_skips_and_counts() -> None:
    checked = check(read_text(TEXT + "---\na: [\n", "f.yaml", lenient=True), lenient=True)
    assert [o["metadata"]["name"] for o in checked.objects] == ["fine"]
    assert checked.skipped == 4
    assert tuple(str(p) for p in checked.problems)[:4] == WANT
    assert "expected valid YAML" in checked.problems[4].expected


def test_lines_in_json_too() -> None:
    text = write_json([pod(), pod({"name": "c"})])
    with pytest.raises(InvalidInput) as caught:
        check(read_text(text, "f.json"))
    image, twice = caught.value.problems
    assert image.path == "spec.containers[0].image"
    assert (
        '"containers"' in text.splitlines()[image.line - 3] or '"name": "c"' in text.splitlines()[image.line]
    )
    assert twice.expected.startswith("Duplicate object")


def test_a_file_full_of_problems_is_cut_at_fifty() -> None:
    text = write_yaml([pod(restartPolicy=f"p{n}") | {"metadata": {"name": f"p{n}"}} for n in range(80)])
    with pytest.raises(InvalidInput) as caught:
        check(read_text(text, "f.yaml"))
    assert len(caught.value.problems) == 51
    assert caught.value.problems[49].line > 0
    assert caught.value.problems[50].expected == "… and 30 more problems"
    assert check(read_text(text, "f.yaml"), lenient=True).skipped == 80


def test_duplicates_across_files_name_both_places() -> None:
    first = read_text(write_yaml([pod()]), "a.yaml")
    second = read_text("# later\n" + write_yaml([pod()]), "b.yaml")
    (problem,) = find_duplicates([*first, *second])
    assert (problem.file, problem.line) == ("b.yaml", 5)
    assert problem.expected == "Duplicate object: Pod/team-a/p is already defined at a.yaml:1"


def test_the_same_name_in_another_namespace_or_kind_is_another_object() -> None:
    other = pod() | {"metadata": {"name": "p", "namespace": "team-b"}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "p", "namespace": "team-a"}}
    generated = pod() | {"metadata": {"generateName": "p-", "namespace": "team-a"}}
    text = write_yaml([pod(), other, config, generated, generated])
    assert len(check(read_text(text, "f.yaml")).objects) == 5


def test_cluster_scoped_objects_lose_their_namespace() -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata: {name: n1, namespace: default}\n"
    assert check(read_text(text, "f.yaml")).objects[0]["metadata"] == {"name": "n1"}
    twice = f"{text}---\napiVersion: v1\nkind: Node\nmetadata: {{name: n1}}\n"
    assert len(find_duplicates(read_text(twice, "f.yaml"))) == 1
