"""Queueing: which workload gets quota next, in which flavors, on which nodes, and at whose cost?

In: Kueue's objects (ClusterQueues, Cohorts, ResourceFlavors, LocalQueues, Topologies, Workloads, nodes) as
facts, the accounts of what holds quota now, and the heads of the queues. Out: frozen outcomes of one
scheduling cycle: admitted with this assignment, preempting these, skipped, or refused and why.

Nothing here reads a clock, draws a number or touches the store; callers carry outcomes out and turn them into
conditions and events with `outcomes`. What-ifs change the accounts and put them back.

Grouped by the steps of a decision, which is the reading order as well: `facts` (what objects and Workloads say),
`quota` (who holds what), `flavors` (which flavors serve best), `tas` (which nodes), `preemption` (who has to go),
`cycle` (one scheduling cycle, and the queues between cycles), `outcomes` (what the API then says).

Around the cycle: `integrations` (how jobs become Workloads, start and stop), `control` (the books a cycle starts
from, one Workload's state machine, what queues say of themselves), `admissionchecks`.

At its edges: `webhooks` (what the API accepts and how it refuses), `configuration` (Kueue's Configuration file),
`metrics` (what it tells Prometheus).

Source: Kueue (main, 2026-08, v1beta2).
"""
