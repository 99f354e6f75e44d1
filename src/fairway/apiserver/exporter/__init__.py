"""What does the server tell Prometheus? `/metrics`: kube-apiserver's names for itself, kube-scheduler's and Kueue's.

`requests` shows what `requestmeter` counted, with watches and stored objects; `components` the scheduler's queue and
the cluster's clock; `queues` Kueue's families, counted by `queuemeter`; `page` puts them together. prometheus-client
writes the text and measures the process. Everything but requests, watch events and Kueue's counters is worked out when
somebody asks.

Unlike kube: one process is API server, scheduler and controllers, so one page has the metrics of all.
"""
