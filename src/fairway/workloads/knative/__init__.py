"""Knative Serving's objects: what becomes of a Service, a Configuration, a Route, a Revision?

In: one of them and what it owns. Out: the Configuration and Route of a Service, the Revision of each generation, its
Deployment (`REVISION-deployment`, with the queue-proxy) and PodAutoscaler, traffic, addresses, conditions, events.
How many pods a Revision has is `fairway.autoscaling.kpa`'s, carried out by `twin/autoscaling/knative`.

Reading order: `conditions` (sets of conditions that make up Ready), `services` (Services and Configurations),
`revisions`, `revisionpods` (the Deployment's pods), `routes` (traffic, and which Revisions are routed to),
`controllers`.

Unlike kube: a network that is ready at once stands for the Ingress; images' digests, certificates and the gradual
rollout of a Route are left out.

Source: knative/serving pkg/reconciler, pkg/apis/serving/v1 (main, 2026-08).
"""
