"""A Service that model servers answer, and the requests that come to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from fairway.kube.timestamps import SECOND_US
from fairway.serving.disaggregated import LINK_BYTES_PER_S
from fairway.serving.fleet import Gateway
from fairway.serving.pipelines import Pipeline
from fairway.serving.readings import Slo
from fairway.serving.steptimes import Deployed
from fairway.serving.traffic import Requests

# From a pod's readiness to the last proxy that sends it requests, and from its deletion to the last that stops.
# Source: measurements of EndpointSlices and kube-proxy in clusters of some hundred nodes, one to three seconds.
ENDPOINT_US: Final = 2 * SECOND_US


@dataclass(frozen=True, slots=True)
class Served:
    """`name`: of the Service, or of the HTTPRoute (`is_route`) whose weights split requests between Services.
    `drains`: at SIGTERM its servers stop listening and finish what they have, as long as the pod is given; without
    it they drop it, as vLLM's server does."""

    name: str
    namespace: str
    deployed: Deployed | Pipeline
    requests: Requests = field(repr=False)
    gateway: Gateway
    slo: Slo
    drains: bool = False
    is_route: bool = False
    reads: Deployed | None = None
    """Prompts are read on pods of their own (of the role `prefill`), as this says; None: by whoever answers."""
    link_bytes_per_s: float = LINK_BYTES_PER_S
    endpoint_us: int = ENDPOINT_US
