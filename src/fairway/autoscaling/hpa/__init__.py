"""What does the HorizontalPodAutoscaler controller of kube-controller-manager decide?

Reading order: `decide` (one sync of one autoscaler), `proposals` (what each metric asks for), `replicas` (the
arithmetic), `podgroups` (which pods count), `limits` (stabilization, policies, bounds), `memory` (what the controller
remembers between syncs), `wording` (how Go prints what it says).

Source: pkg/controller/podautoscaler (v1.36).
"""
