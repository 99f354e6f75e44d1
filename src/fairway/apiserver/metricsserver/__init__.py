"""What do pods and nodes use? The API `metrics.k8s.io` as metrics-server serves it, and kubelets' own two pages.

In: what the kubelets say through `kubelets.interface`. `twin.kubelet.sampling` does the arithmetic with two scrapes,
`answering` its API (get, list, selectors, tables), `registration` what it installs (APIService, role), `nodepages`
`/metrics/resource` and `/stats/summary` of a node.

Source: kubernetes-sigs/metrics-server (main, 2026).
"""
