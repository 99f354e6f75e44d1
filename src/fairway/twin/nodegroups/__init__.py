"""Node groups in a twin: the Cluster Autoscaler's decisions, carried out.

Every scan: pods nobody has room for make a group grow; machines boot, or cannot be had and put their group into
backoff; nodes nobody needs for long enough are tainted, drained and removed. Decisions are those of
`provisioning/clusterautoscaler`.

Reading order: `grouping` (groups of a scenario, the store as the autoscaler sees it), `component` (its loop),
`backoffs`, `requests` (ProvisioningRequests), `removals` (nodes on their way out).
"""
