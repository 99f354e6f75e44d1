"""What moves claims and volumes: who binds them, who makes new ones, and pods that wait for that.

`binding`: the volume controllers of kube-controller-manager, and simulated provisioners of every class; `making`: what
a provisioner makes; `waiting`: kube-scheduler's PreBind, which holds a pod on its node until its claims are bound.
Decisions about nodes are `scheduling.volumes`'.
"""
