"""Why did it (not) scale: asked of autoscalers, and of what they scale."""

from __future__ import annotations

from typing import Any

import yaml
from answerworlds import moment_of, node

from fairway.answers.explain import explain_named
from fairway.answers.explaintext import explanation_lines
from fairway.kube.objects import Obj
from fairway.results.textlayout import as_text


def objects(text: str) -> list[Obj]:
    return list(yaml.safe_load_all(text))


def load(**described: Any) -> Obj:
    meta = {"name": "load", "namespace": "default", "labels": {"fairway.dev/load": "true"}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta,
        "data": {"load": yaml.safe_dump(described)},
    }


WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 4
  metrics:
  - type: External
    external: {metric: {name: backlog}, target: {type: AverageValue, averageValue: "10"}}
"""


def test_an_autoscaler_without_its_metric_says_so() -> None:
    found = explain_named(moment_of([node("n", 1), *objects(WEB)]), "hpa/web").as_json()
    assert found["state"] == "NotScaling"
    assert found["blocker"]["layer"] == "scaling"
    assert found["blocker"]["reason"] == "FailedGetExternalMetric"
    assert found["sentence"].startswith("HorizontalPodAutoscaler default/web does not scale: ")
    assert found["chain"][0]["details"] == ["External backlog: unknown, target 10 for each pod"]


def test_an_autoscaler_at_its_limit_names_it_and_what_it_did() -> None:
    series = [{"name": "backlog", "value": 100}]
    moment = moment_of([node("n", 1), load(series=series), *objects(WEB)], minutes=5)
    found = explain_named(moment, "hpa/web").as_json()
    assert found["state"] == "Scaling"
    assert "the desired replica count is more than the maximum replica count" in found["sentence"]
    assert found["chain"][0]["details"] == ["External backlog: 25 for each pod, target 10 for each pod"]
    history = found["chain"][-1]
    assert history["message"].startswith("last changed 1 → 4 replicas ")
    assert "external metric backlog" in history["details"][0]


def test_of_what_is_scaled_its_autoscaler_is_a_note() -> None:
    series = [{"name": "backlog", "value": 30}]
    moment = moment_of([node("n", 1), load(series=series), *objects(WEB)], minutes=5)
    found = explain_named(moment, "deployment/web")
    note = next(link for link in found.chain if link.layer == "scaling")
    assert note.state == "noted"
    assert note.numbers == {"current": 3, "desired": 3, "min": 1, "max": 4}
    assert "nothing holds it" in found.sentence
    assert max(map(len, as_text(explanation_lines(found, 100)).splitlines())) <= 100


def test_a_target_that_is_not_there() -> None:
    (_, scaler) = objects(WEB)
    found = explain_named(moment_of([node("n", 1), scaler]), "hpa/web").as_json()
    assert found["blocker"]["reason"] == "FailedGetScale"
    assert 'deployments.apps "web" not found' in found["blocker"]["message"]


def test_a_scaled_object_tells_of_the_autoscaler_it_made() -> None:
    deployment, _ = objects(WEB)
    scaled = objects("""
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web, namespace: default}
spec:
  scaleTargetRef: {name: web}
  triggers: [{type: cron, metadata: {timezone: UTC, start: 0 0 * * *, end: 0 23 * * *, desiredReplicas: "3"}}]
""")
    found = explain_named(moment_of([node("n", 1), deployment, *scaled], minutes=5), "so/web").as_json()
    assert found["state"] == "Scaling"
    assert [link["message"].partition(":")[0] for link in found["chain"][1:3]] == [
        "deployment.apps/web",
        "keda-hpa-web",
    ]


def test_a_revision_at_zero_says_that_nobody_asks_for_it() -> None:
    service = objects("""
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: model, namespace: default}
spec: {template: {spec: {containers: [{image: model}]}}}
""")
    found = explain_named(
        moment_of([node("n", 1), *service], minutes=5), "podautoscaler/model-00001"
    ).as_json()
    assert found["chain"][0]["message"] == "The target is not receiving traffic."
    assert found["chain"][-1]["message"].startswith("last changed 1 → 0 replicas")
