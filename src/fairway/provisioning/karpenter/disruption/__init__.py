"""Which nodes should go, and what should come instead?

In: a `DisruptionContext` (the world, its pending pods, budgets, the time). Out: at most one `Command`, and notices of
why others are not possible. A command is decided, waits 15 s, is decided again against the world as it is then, and
only then carried out.

Reading order: `context`, `candidates` (which nodes may be touched, what touching them costs), `evictions` (PDBs and
do-not-disrupt), `budgets`, `simulation` (where would its pods go), `commands`, `consolidation` (cheaper nodes),
`balanced` (is it worth it), `multinode`, `methods` (the order in which all are tried), `settled` (need they look
again), `recheck`, `marks` (consolidatable, drifted, expired).

Source: pkg/controllers/disruption.
"""
