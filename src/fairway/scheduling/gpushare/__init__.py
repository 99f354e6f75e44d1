"""Which node and which GPUs does a pod get when GPUs are shared in thousandths?

In: what is free per device (`devices.GpuNodes`), what a pod needs (a row of POD_COLUMNS), for some policies
the expected workload (`fragmentation.TypicalPods`). Out: scores per node and the devices that earn them.

Read `devices` (the arrays, what fits, take and give back), `fragmentation` (the FGD paper's measure), one
file per policy (`fgd` first, `headroom` is our own), `policies` (the list), `placer` (scores kept and
refreshed incrementally). `fairway.kernels` says how the loops are compiled, `warm` compiles them ahead.

Decisions are functions of arrays. They hold no clock, no generator and no store, and rescore any subset of
the nodes, so that a caller rescores only what changed.
"""
