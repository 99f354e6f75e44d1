"""Time and everything that moves: a cluster whose clock is ours.

In: objects, behaviours of containers, faults, a seed and a latency model. Out: what happens, in order: the
store's changes, an event log with a digest, and the state at any moment, which can be copied and continued.

Decisions are not made here. Components wrap the pure engines of other rooms, give them time and carry out
what they decide.

Reading order: `loop` (time and order), `streams` (chance), `latency` (how long things take), `components`
(who lives on the loop, and how they see changes), `eventlog` and `kubeevents` (what is written down),
`behaviour` (what containers do), `progress` (work done, saved and lost), `kubelet` (nodes that run pods),
`nodelifecycle` and `podgc` (what the control plane does about broken nodes and finished pods), `volumes`,
`operators` (their webhooks), `controllers` (a runner for pure controllers, behind admission), `kueue` (its
controllers and scheduler), `scheduler`, `queries` (PromQL, asked of what there is), `faults` (what goes wrong),
`standard`, `twin` and `hugepages` (all of it together). On top, as rooms of
their own: `recorder`
(what came of it), `scenario`, `traces` and `openb` (what is played), `conformance` (what real engines did, replayed).
"""
