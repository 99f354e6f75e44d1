"""Kinds, labels and annotations of Knative Serving.

Source: pkg/apis/serving/register.go, pkg/reconciler/*/resources/names.
"""

from __future__ import annotations

from typing import Any, Final

from fairway.kube.objects import Obj, annotations_of, labels_of

GROUP: Final = "serving.knative.dev"
VERSION: Final = f"{GROUP}/v1"
SERVICE: Final = f"Service.{GROUP}"
CONFIGURATION: Final = f"Configuration.{GROUP}"
ROUTE: Final = f"Route.{GROUP}"
REVISION: Final = f"Revision.{GROUP}"
POD_AUTOSCALER: Final = "PodAutoscaler.autoscaling.internal.knative.dev"
AUTOSCALER_VERSION: Final = "autoscaling.internal.knative.dev/v1alpha1"
DEPLOYMENT: Final = "Deployment.apps"

OF_CONFIGURATION: Final = f"{GROUP}/configuration"
OF_GENERATION: Final = f"{GROUP}/configurationGeneration"
OF_CONFIGURATION_UID: Final = f"{GROUP}/configurationUID"
OF_REVISION: Final = f"{GROUP}/revision"
OF_REVISION_UID: Final = f"{GROUP}/revisionUID"
OF_SERVICE: Final = f"{GROUP}/service"
OF_SERVICE_UID: Final = f"{GROUP}/serviceUID"
ROUTES: Final = f"{GROUP}/routes"
ROUTING_STATE: Final = f"{GROUP}/routingState"
ROUTING_STATE_MODIFIED: Final = f"{GROUP}/routingStateModified"
ROLLOUT_DURATION: Final = f"{GROUP}/rollout-duration"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
# config-domain as installed, before anybody sets a domain.
DOMAIN: Final = "svc.cluster.local"


def deployment_name(revision: str) -> str:
    return f"{revision}-deployment"


def private_service(revision: str) -> str:
    return f"{revision}-private"


def labelled(revision: Obj) -> dict[str, str]:
    """What everything made for a Revision is labelled with."""
    kept = {k: v for k, v in labels_of(revision).items() if k not in (f"{GROUP}/route", ROUTING_STATE)}
    name = revision["metadata"]["name"]
    return {"app": name, **kept, OF_REVISION: name, OF_REVISION_UID: revision["metadata"]["uid"]}


def annotated(revision: Obj, *, with_scaling: bool) -> dict[str, str]:
    own = (f"{GROUP}/lastPinned", f"{GROUP}/no-gc", ROUTING_STATE_MODIFIED, ROUTES)
    told = {k: v for k, v in annotations_of(revision).items() if k not in own}
    return (
        told
        if with_scaling
        else {k: v for k, v in told.items() if not k.startswith("autoscaling.knative.dev")}
    )


def generation_of(revision: Obj) -> int:
    """Of the Configuration it was made of."""
    told = labels_of(revision).get(OF_GENERATION, "")
    return int(told) if told.isdigit() else 0


def changed(before: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """A merge patch for the members that differ."""
    gone: dict[str, Any] = {k: None for k in before if k not in wanted}
    return {**gone, **{k: v for k, v in wanted.items() if before.get(k) != v}}
