"""Integrations: how does a job of some kind become a Workload, start when that is admitted, and stop again?

In: a read-only view of the store, and the key of a job. Out: what to do about it, as actions. One decision
(`reconcile`) serves every kind of job; what differs between kinds stands behind `integration.Integration`,
one module a kind.

Reading order: `integration` (what a kind of job has to answer), `podsetinfo` (what is injected into its
templates), `job` (batch/v1 Job, the simplest one), `topologyrequest`, `names`, `construct` (the Workload of a
job), `priorities`, `equivalence` (does it still describe the job?), `ownership` (which Workload is whose),
`podsready`, `reconcile` (the decision), `admitting` (what happens to a job on its way into the API),
`registry` (all kinds there are).

Source: Kueue pkg/controller/jobframework, pkg/controller/jobs (main, 2026-08).
"""
