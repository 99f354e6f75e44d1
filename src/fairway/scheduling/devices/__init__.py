"""Which devices does a claim get on a node: kube-scheduler's structured allocator.

In: what drivers publish (ResourceSlices), what is taken, classes, and a pod's claims. Out: frozen allocations, in the
order and with the choice of upstream, or why there is none. Nothing here writes, reads a clock or draws a number.

Reading order: `facts` (objects, typed and remembered), `pools` (which devices a node can use), `capacity` (parts of
shared devices), `constraints`, `usage` (what is taken), `selecting`, `requests` (what is asked for), `search` (the
choice, depth first with backtracking), `allocations` (what a claim's status then says), `extended` (extended resources
backed by classes).

Source: k8s.io/dynamic-resource-allocation/structured (v1.36): the incubating allocator, which 1.36 uses by default.
"""
