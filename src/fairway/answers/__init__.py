"""Questions asked of a ground: why does it wait, what would start it, may it enter, what is wrong here?

In: a `ground.Moment` and the name of an object, or manifests. Out: frozen answers that the command line prints and
programs read. Every verdict is an engine's own (Kueue's cycle, kube-scheduler's, the provisioner's), asked again at
that moment; every change that is proposed has been tried on a copy of the twin.

Reading order: `naming` (which object is meant, what belongs to it), `explanation` (the types), `explain` and its layers
(`admissionlinks`, `queuelinks`, `podlinks`; `places` for nodes, pools and queues), `changes` (what would start it) over
`proposals`, `steps` and `trials`, `check` (before submission), `doctor/` (symptoms), `incident`. Texts for terminals
stand beside each.
`forecasting/` asks when: futures of the cluster, played forward. `whatif/` asks what would be different. `api` has all
of it in Python; `schemas` say what is in the answers.
"""
