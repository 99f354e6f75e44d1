"""What happens inside a node when the API server connects there: logs, exec, attach, port-forward, usage.

`interface` is the seam: `Kubelet` is what the API server asks of a node, `Kubelets` says whose kubelet answers for
which node. A kubelet that runs real processes implements `Kubelet` and takes its nodes with `Kubelets.take`; nothing
in `subresources/`, `streaming/` or `metricsserver/` knows which kind it talks to.

`simulated` is the one for simulated nodes: `containerlogs` (what containers write), `processes` (exec and attach),
`shell`, `commands`, `archives` and `nvidiasmi` (what commands do), `files` (a small file system per container),
`ports` (what answers on a declared port). Nothing of this machine is read or run.

Reading order: `interface`, `simulated`, then as you need.
"""
