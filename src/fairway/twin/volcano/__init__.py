"""Volcano in the twin: its scheduler's sessions on the loop, and its controllers.

`feasibility` lets kube-scheduler's filters and scores speak to `queueing.volcano`, which may not import them;
`scheduler` runs a session a second while there is anything new, and carries it out.
"""
