"""What does the server tell Prometheus? `/metrics`: names of kube-apiserver, and of what runs beside it.

`requests` shows what `requestmeter` counted, with watches and stored objects; `components` the scheduler's queue and
the cluster's clock; `queues` Kueue's families, counted by `queuemeter`; `machines` Karpenter's and the Cluster
Autoscaler's, with what `podmeter` saw of pods; `rendering` writes families that are kept as data; `page` puts them
together. prometheus-client writes the text and measures the process. What is not counted where it happens is worked
out when somebody asks.

Unlike kube: one process is API server, scheduler and controllers, so one page has the metrics of all.
"""
