"""Volcano's Jobs and PodGroups: which pods, PodGroups, Services and ConfigMaps should exist, and in which phase is
the job?

In: a read-only view, a key, the time. Out: frozen actions. What schedules the pods is `fairway.volcano`.

Reading order: `spec` (a job with its defaults), `policies` (what happened, and what its policies make of it),
`phases` (the state machine), `pods` (its pods, with what the plugins env, svc and ssh add), `gang` (its PodGroup),
`decide` (all of it in order), then `podgroups` (PodGroups for pods that have none) and `queues`.

Source: volcano-sh/volcano pkg/controllers/{job,podgroup,queue,garbagecollector}, master of 2026-08.
"""
