"""Nodes that come and go in a twin: Karpenter's decisions, carried out.

Pods that the scheduler could not place are batched; NodeClaims are written for them, launched, boot, register and
are initialized; nodes that are empty, drifted or too dear go: cordoned by a taint, replaced first where they must be,
drained through evictions, deleted. Decisions are those of `provisioning/karpenter`.

Not yet: expiry is timed only where a NodePool names its `expireAfter`.

Reading order: `cloud` (what can be had, how long it takes), `gathering` (the store as Karpenter sees it), `joining`
(a machine becomes a node), `marking` (which claims are consolidatable or drifted), `disrupting` (which nodes go, and
what becomes of that decision), `draining` and `terminating` (emptying a node, and letting it go), `spot` (capacity
taken back), `speaking` and `metrics` (what is told of it), `component` (who does what when).
"""
