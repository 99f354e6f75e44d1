"""JobSet: several groups of Jobs that start, restart, succeed and fail as one.

In: a JobSet, its child Jobs, the time. Out: Jobs and a headless service to create, Jobs to suspend, resume and
delete, the next status, events. Pods are the Job controller's.

Reading order: `decide` (the decision, step by step), `childjobs` (which Jobs there should be, and what is written
into them), `replicas` (the status per replicated job; start-up order and dependencies), `failurepolicy`,
`conditions` (how a JobSet's conditions change).

Source: kubernetes-sigs/jobset pkg/controllers (main of 2026-08, API v1alpha2).
"""
