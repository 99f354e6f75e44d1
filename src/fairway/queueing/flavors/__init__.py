"""Which flavor serves every resource of every pod set best, given what is free, lent or could be preempted?

In: a Workload's facts and the accounts. Out: an assignment with what was rejected and why.

Reading order: `assignment` (the answer), `attempts`, `flavormatch` (can the pods run there at all), `fungibility` (how
good is it), `topologyrequests` and `placement` (do the pods find domains), `variants`, `flavorassigner`, `reducer`
(partial admission).
"""
