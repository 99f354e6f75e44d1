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

Around the cycle: `integrations` (how jobs become Workloads, start and stop), `control` (the books a cycle starts
from, one Workload's state machine, what queues say of themselves), `adjusting` (what pods get on their way in).

At its edges: `webhooks` (what the API accepts and how it refuses), `configuration` (Kueue's Configuration file, with
`featuregates`), `metrics` (what it tells Prometheus).

Source: Kueue (main, 2026-08, v1beta2).
"""
