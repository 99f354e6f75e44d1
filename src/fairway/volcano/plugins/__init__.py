"""Volcano's plugins: each answers some of a session's questions.

In: the session's world. Out: hooks by the configuration's flags (see `session`). Reading order: `gang` (all or
nothing), `priority` and `conformance` (who before whom, who is spared), `drf` and `proportion` (shares of jobs
and queues), `overcommit` (how many may wait as pods), `nodescores` (binpack, nodeorder), `opening` (all of them).
"""
