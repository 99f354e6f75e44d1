"""What do Kueue's webhooks accept, what do they fill in, and with which words do they refuse?

In: an object as it is sent, the object that is stored, a read-only view, `Settings`. Out: the object as it is stored
(`defaulted`), or `Refusal`s with the text a client reads. Nothing here writes.

Kueue's own kinds come with the shape of their definitions (`kube.published`), v1beta1 ones too: they are converted
(`conversion`). Jobs pass the webhooks of the integrations that are on.

Reading order: `door` (all of it), `faults` (how a refusal is said), `conversion`, `clusterqueues`, `quotas`,
`flavors`, `workloads`; for jobs `settings`, `jobshapes`, `ownership`, `jobdefaults`, `jobs`, then `batchjobs`, `pods`,
`serving`, `compositejobs`, `topologyannotations`.

Source: pkg/webhooks, pkg/controller/jobs, config/components (Kueue main, 2026-08).
"""
