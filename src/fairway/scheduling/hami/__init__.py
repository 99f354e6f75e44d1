"""Which cards of a node does HAMi give a pod that asks for parts of them (`nvidia.com/gpumem`, `gpucores`)?

In: the cards as HAMi's device plugin registers them on nodes, what pods hold by their annotations, and a pod. Out: the
node with its cards, or why each node will not do, in HAMi's words. HAMi is an extender of a kube-scheduler of its own,
`hami-scheduler`; so it is here (`scheduling.extenders`), answered in the process.

Reading order: `cards` (what annotations say), `requests` (what containers ask for), `fitting` (the choice).

Source: HAMi (master, 2026-08) pkg/scheduler, pkg/device/nvidia.
"""
