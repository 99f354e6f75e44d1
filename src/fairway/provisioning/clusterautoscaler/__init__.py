"""By how many nodes would the Cluster Autoscaler grow which node group, and which nodes would it remove?

In: node groups with their templates, nodes with their pods, pods that wait, PodDisruptionBudgets. Out: `ScaleUp`
(groups with new sizes, the pods that triggered it, and per pod why no group helps) and `ScaleDown` (nodes nobody needs,
and why others are kept). Nothing here knows the store, a clock or chance.

Not judged: affinity between pods and topology spread, beyond a pod's anti-affinity to its own kind on one host; a
group's template is a fresh node of it, with its DaemonSets' pods.

Reading order: `groups` (what is decided from), `fitting` (does a pod fit a node, in the scheduler's words),
`snapshot` (who would sit where), `estimating` (how many new nodes), `expanders` (which group), `balancing` (similar
groups), `scaleup`; then `draining` (which pods block), `scaledown`; `requests` (ProvisioningRequests); `events` and
`statustext` (its words).

Source: kubernetes-sigs/cluster-autoscaler pkg (main, 2026-08), where the core of kubernetes/autoscaler lives now,
unless a docstring says otherwise.
"""
