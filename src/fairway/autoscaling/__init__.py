"""How many replicas should there be, and how large? HPA, KEDA, VPA, and Knative's KPA.

In: an autoscaler's object, its target's scale, its target's pods, and what a `MetricsSource` says. Out: frozen
decisions with the words, conditions and events of the real controllers. Nothing here reads a clock or writes.

Reading order: `source` (the seam to whoever knows metrics), `scales` (which field of which kind is the number of
replicas), `hpa` (kube-controller-manager's rules), `load` (the series and queues that scenarios describe), `keda`,
`vpa`, `kpa` (Knative's Revisions), `fights` (autoscalers that work against each other). `twin/autoscaling` carries
decisions out.
"""
