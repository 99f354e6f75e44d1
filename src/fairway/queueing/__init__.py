"""Queueing: which workload gets quota next, in which flavors, on which nodes, and at whose cost?

In: Kueue's objects (ClusterQueues, Cohorts, ResourceFlavors, LocalQueues, Topologies, Workloads, nodes) as
facts, the accounts of what holds quota now, and the heads of the queues. Out: frozen outcomes of one
scheduling cycle: admitted with this assignment, preempting these, skipped, or refused and why.

Nothing here reads a clock, draws a number or touches the store; callers carry outcomes out and turn them into
conditions and events with `statuses` and `events`. What-ifs change the accounts and put them back.

Reading order: `gates`, `amounts`, `objects` (facts of the configuration), `workloads` (facts of a workload),
`quota` (the tree of quotas), `shares` (dominant resource share), `accounts` (all of it together), `assignment`
and `flavorassigner` (which flavors), `preemption` (who has to go), `tas` (which nodes), `nomination` and
`cycle` (one scheduling cycle), `pending` (the queues between cycles), `queueusage` (admission fair sharing),
`statuses` and `events` (what the API then says).

Source: Kueue (main, 2026-08, v1beta2).
"""
