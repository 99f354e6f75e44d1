"""DaemonSet: one pod on every node that should have one.

In: a DaemonSet, the nodes, its pods and revisions. Out: pods to create and delete, its status.

Reading order: `decide` (the decision), `placement` (should this node have one?), `rolling` (which old pods
make way), `daemonpods` (the pods it creates).

Source: pkg/controller/daemon (v1.36).
"""
