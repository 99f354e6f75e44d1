"""What is wrong with a ProvisioningRequest? Located, as its CRD has it.

Source: autoscaler cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1/types.go.
"""

from __future__ import annotations

from fairway.errors import FieldProblem
from fairway.kube import names
from fairway.kube.located import Field, Reading
from fairway.kube.manifest import Manifest
from fairway.kube.provisioningrequests import BEST_EFFORT_ATOMIC, CHECK_CAPACITY

_MOST_POD_SETS, _MOST_PARAMETERS, _LONGEST_PARAMETER = 32, 100, 255


def problems_of(manifest: Manifest) -> list[FieldProblem]:
    """Everything the API server would refuse."""
    reading = Reading(manifest)
    root = reading.root().members("apiVersion", "kind", "metadata", "spec", "status", required=("spec",))
    spec = root["spec"].members(
        "podSets", "provisioningClassName", "parameters", required=("podSets", "provisioningClassName")
    )
    class_name = spec["provisioningClassName"]
    if class_name.value is not None and names.dns_subdomain(class_name.text()):
        class_name.reject(f"expected a class such as {CHECK_CAPACITY} or {BEST_EFFORT_ATOMIC}")
    pod_sets = spec["podSets"].items()
    if spec["podSets"].value is not None and not 1 <= len(pod_sets) <= _MOST_POD_SETS:
        spec["podSets"].reject(f"expected 1 to {_MOST_POD_SETS} pod sets")
    for pod_set in pod_sets:
        _check_pod_set(pod_set)
    _check_parameters(spec["parameters"])
    return reading.problems


def _check_pod_set(item: Field) -> None:
    given = item.members("podTemplateRef", "count", required=("podTemplateRef", "count"))
    given["count"].integer(1, 1)
    name = given["podTemplateRef"].members("name", required=("name",))["name"]
    if name.value is not None and names.dns_subdomain(name.text()):
        name.reject("expected the name of a PodTemplate in the same namespace")


def _check_parameters(given: Field) -> None:
    entries = given.entries()
    if len(entries) > _MOST_PARAMETERS:
        given.reject(f"expected at most {_MOST_PARAMETERS} parameters")
    for _, value in entries:
        if not isinstance(value.value, str) or len(value.value) > _LONGEST_PARAMETER:
            value.reject(
                f'expected text of at most {_LONGEST_PARAMETER} characters, such as "true" in quotes'
            )
