"""The Kubernetes API over a cluster that runs in its own time.

In: HTTP requests of kubectl, client libraries, controllers. Out: what kube-apiserver would answer, from one store
that the twin's components work on; every acknowledged write is on disk.

`wire/` knows HTTP and nothing of Kubernetes; `requests` says what a request asks; `auth/` who asks;
`verbs/` and `subresources/` answer, with `kubelets/`, `streaming/` and `metricsserver/` for what is inside nodes;
`door` is the one way in for clients' writes, `admission.door` for the new objects of the cluster's own controllers;
`journal` makes them last, `history` keeps what became of everything; `cluster` puts the twin behind it and `pump` moves
its time; `components` says which
controllers only a served cluster has (`endpoints`, `volumes`, `signingrequests`, …), `leftout` which of all are left
out for real ones; `health` and `exporter/` say how
the server is; `serving` is the process.

Reading order: `requests`, `resources`, `handling`, `verbs/reading`, `door`, `verbs/writing`, `watching`,
`journal`, `pump`, `cluster`, `serving`.
"""
