"""Ray on Kubernetes: a RayCluster's head and workers; a RayJob's cluster, submitter and state.

In: a RayCluster or RayJob, its pods, its submitter Job, the time. Out: pods, a head service, a cluster, a Job, the
next status, events.

Reading order: `cluster` (a RayCluster's decision), `pods` (its head and workers), `job` (a RayJob's states).

Source: ray-project/kuberay ray-operator/controllers/ray (master of 2026-08, API ray.io/v1).
"""
