"""What does a node do with the pods it is given? One simulated kubelet for all simulated nodes.

In: pods bound to nodes, deletions, faults. Out: the status a real kubelet writes, word for word, at the times
it would write it; events; and how much work was done, saved and lost.

Every pod is a small state machine held as data (`states`); nothing waits in a closure. Pure parts: `plans`
(what a spec asks for), `probes` (when a probe's verdict changes), `admission` (may it run here), `references` (which
ConfigMaps and Secrets it needs), and what is written: `phases`, `conditions`, `containerstatus`, `status`,
`nodestatus`. Acting parts: `starting`, `mounting`, `pulling` (images), `stores` (models), `probing`, `working` (when
runs end, what they achieved), `collectives` (members of distributed jobs wait for each other), `usage` (what they use
meanwhile), `locality` (CPUs, memory and GPUs by NUMA node, where the kubelet was told), `sharing` (runs on one card),
`talking` (steps of a placement), `gpufaults`, `stopping`, `machines` (nodes that fail, return, shut down), and
`component`, which puts them on the loop.

Source: pkg/kubelet of Kubernetes 1.36.
"""
