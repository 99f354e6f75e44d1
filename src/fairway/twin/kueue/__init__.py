"""Kueue on the loop: its controllers and its scheduler, driven over the store.

In: changes of the store. Out: Workloads for jobs, admissions, evictions, jobs started and stopped, statuses of
queues, events. What to do is decided by `fairway.queueing`; here is when, and carrying it out. Nothing happens
until the first object of kueue.x-k8s.io appears.

Reading order: `component` (who listens to what, work queues, timers), `reconciling` (one object, reconciled),
`cycles` (scheduling cycles and what comes of them), `topology` (pods and nodes where topologies are used),
`entering` (what Kueue's webhooks do to objects on their way in).
"""
