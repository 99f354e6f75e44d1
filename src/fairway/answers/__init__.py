"""Questions asked of a ground: why does it wait, what would start it, may it enter, what is wrong here?

In: a `ground.Moment` and the name of an object, or manifests. Out: frozen answers that the command line prints and
programs read. Every verdict is an engine's own (Kueue's cycle, kube-scheduler's, the provisioner's), asked again at
that moment; every change that is proposed has been tried on a copy of the twin.
"""
