"""One authorized request on its way to an answer, and what all answers are made from.

`Api` is the server's state, one per process; an `Ask` is one request about a resource.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from fairway.admission.rbac.attributes import Attributes
from fairway.admission.request import User
from fairway.apiserver.requests import RequestInfo
from fairway.apiserver.resources import Resource, Subresource
from fairway.apiserver.wire.messages import Request
from fairway.kube.objects import Key

if TYPE_CHECKING:
    from fairway.admission.door import Door
    from fairway.admission.rbac.authorizer import Authorizer
    from fairway.apiserver.addresses import Addresses
    from fairway.apiserver.auth.authentication import Authentication
    from fairway.apiserver.auth.tokens import Tokens
    from fairway.apiserver.bodies import Bodies
    from fairway.apiserver.cluster import Cluster
    from fairway.apiserver.definitions import Definitions
    from fairway.apiserver.journal import Journal
    from fairway.apiserver.kubelets.interface import Kubelets
    from fairway.apiserver.memory import Memory
    from fairway.apiserver.representing import Representation
    from fairway.apiserver.requestmeter import RequestMeter
    from fairway.apiserver.resources import Resources
    from fairway.apiserver.scrapes.pages import Exporters
    from fairway.apiserver.watching import Watches
    from fairway.apiserver.webhookcalls import Webhooks
    from fairway.cluster.store import Store
    from fairway.kube.objects import Obj


@dataclass(slots=True)
class Api:
    """Everything verbs work with."""

    store: Store
    cluster: Cluster
    journal: Journal
    bodies: Bodies
    resources: Resources
    definitions: Definitions
    representation: Representation
    watches: Watches
    authorizer: Authorizer
    authentication: Authentication
    tokens: Tokens
    addresses: Addresses
    meter: RequestMeter
    memory: Memory
    _door: Door | None = None
    _webhooks: Webhooks | None = None
    _kubelets: Kubelets | None = None
    _exporters: Exporters | None = None

    @property
    def door(self) -> Door:
        """Admission. Loaded with the first write: a server that has just started answers reads without it."""
        if self._door is None:
            from fairway.admission.door import Door
            from fairway.apiserver.budget import check_made
            from fairway.twin.operators import OperatorWebhooks

            operators = OperatorWebhooks(
                self.store,
                self.cluster.kueue_settings,
                as_asked=True,
                is_misshapen=partial(_is_misshapen, self.resources),
                without=self.cluster.left.names,
            )
            self._door = Door(
                self.store,
                self.authorizer,
                operators=operators,
                later=self.webhooks.begin,
                fits=partial(check_made, self.resources),
            )
            self.store.followers.append(self._door)
        return self._door

    @property
    def webhooks(self) -> Webhooks:
        """Who calls admission webhooks. Loaded with the first call."""
        if self._webhooks is None:
            from fairway.apiserver.webhookcalls import Webhooks

            self._webhooks = Webhooks(self.store, self.cluster)
        return self._webhooks

    @property
    def kubelets(self) -> Kubelets:
        """Whoever answers for what happens inside nodes. Loaded with the first question."""
        if self._kubelets is None:
            from fairway.apiserver.kubelets.interface import Kubelets
            from fairway.apiserver.kubelets.simulated import SimulatedKubelet

            simulated = SimulatedKubelet(self.store, self.cluster.simulated_nodes, self._exported)
            self._kubelets = Kubelets(simulated)
        return self._kubelets

    def _exported(self, pod: Obj, path: str) -> bytes | None:
        page = self.exporters.page_of_pod(pod, path)
        return None if page is None else page.body

    @property
    def exporters(self) -> Exporters:
        """What exporters on the cluster answer. Loaded with the first scrape."""
        if self._exporters is None:
            from fairway.apiserver.scrapes.pages import Exporters

            self._exporters = Exporters(self)
        return self._exporters


def _is_misshapen(resources: Resources, obj: Obj) -> bool:
    """Whether a custom object breaks its schema."""
    from fairway.apiserver.custom import custom_problems

    resource = resources.of_kind(str(obj.get("apiVersion")), str(obj.get("kind")))
    return resource is not None and resource.is_custom and bool(custom_problems(resource, obj, None))


def attributes(user: User, info: RequestInfo, verb: str = "") -> Attributes:
    """What the request does, or would with another verb, as RBAC sees it."""
    if not info.is_resource:
        return Attributes(user, info.verb, path=info.path)
    return Attributes(
        user,
        verb or info.verb,
        info.group,
        info.resource,
        info.subresource,
        info.namespace,
        info.name,
        "",
        info.version,
    )


@dataclass(slots=True)
class Ask:
    """`warnings` become Warning headers of the answer."""

    request: Request
    info: RequestInfo
    resource: Resource
    user: User
    subresource: Subresource | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def key(self) -> Key:
        """The object the path names."""
        namespace = self.info.namespace if self.resource.kind.namespaced else ""
        return Key(self.resource.gk, namespace, self.info.name)

    @property
    def dry_run(self) -> bool:
        return self.request.option("dryRun") == "All"

    @property
    def accept(self) -> str:
        return self.request.header("accept")

    @property
    def include(self) -> str:
        return self.request.option("includeObject") or "Metadata"

    def options(self, kind: str) -> dict[str, Any]:
        """CreateOptions and the like, as admission is shown them."""
        options: dict[str, Any] = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.request.raw_query:
            if self.dry_run:
                options["dryRun"] = ["All"]
            for name in ("fieldManager", "fieldValidation"):
                value = self.request.option(name)
                if value:
                    options[name] = value
        return options
