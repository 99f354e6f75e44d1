"""Pod Security Standards: does a pod keep to the level its namespace asks for?

In: the namespace's labels, a pod (or a workload's template). Out: a refusal, warnings and audit annotations.

Reading order: `levels` (what the labels ask), `checks` (baseline), `restrictedchecks`, `evaluation` (which checks
apply), `admission` (pods, workloads, namespaces).

Source: pod-security-admission (v1.36).
"""
