"""Control: what does Kueue write into its own objects, beside what a scheduling cycle decides?

In: Workloads, queues, cohorts, flavors and checks as they are, and the books of what holds quota and what
waits. Out: their next status, finalizers, evictions, timers.

Reading order: `settings` (what of the Configuration concerns them), `backlog` (the books, kept by changes of the
objects) with `waiting` (what waits where), `holdings` (what holds quota), `configuring` (what follows from changes of
queues, flavors, nodes…), `environment`, `touched` (what somebody has to follow up on) and `differences`; `trees`
(which queues an event can help), `workload` (one Workload's state machine) with `blockers` (why it cannot be
queued) and `checks` (its admission checks), `queuestatus` (ClusterQueue, LocalQueue, Cohort), `finalizers` (what
is in use stays), `ungating` (pods to their topology domains), `nodefailures` (what becomes of those of a node that
failed).

Source: Kueue pkg/controller/core, pkg/controller/tas, pkg/cache (main, 2026-08).
"""
