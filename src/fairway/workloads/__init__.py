"""Workload controllers: which pods should exist, and what do their owners' statuses say?

In: a read-only view of the cluster, the key of an object, the time. Out: frozen actions (create, delete,
patch, set a status, emit an event) and when to look again. Nothing here writes, waits or draws chance; two
calls on one view give one answer, and carrying the answer out until none is left is convergence.

Reading order: `controller` (what a controller is), `registry` (all of them), `concerned` (who must
look after a change), `pods` and `podtemplate` (what they share), then one package or module per controller: `job`,
`cronjob`, `replicaset`, `deployment`, `statefulset`, `daemonset`, `disruption`, `namespaces`,
`resourcequota`, `adoption`; then the operators': `jobset`, `kubeflow`, `ray`, `leaderworkerset`, `kserve`,
`gateways`, `rollouts`, `volcanojob`, `knative`, `podgroups`, `podwebhooks` (what their webhooks write into pods), and
`worldsize` (which pods must run at the same time for any to get on).
"""
