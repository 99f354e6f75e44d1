"""What do pods and nodes use? The API `metrics.k8s.io` as metrics-server serves it, and kubelets' own two pages.

In: what the kubelets say through `kubelets.interface`. `twin.kubelet.sampling` does the arithmetic with two scrapes,
`answering` its API (get, list, selectors, tables), `nodepages` `/metrics/resource` and `/stats/summary` of a node. What
metrics-server installs (APIService, role) is in `apiserver/apiservices.py`.

Source: kubernetes-sigs/metrics-server (main, 2026).
"""
