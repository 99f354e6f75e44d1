"""One scheduling cycle: who of the heads of all queues is admitted, who preempts, who waits and why?

In: the accounts and the heads of the queues. Out: an outcome for every head (`entries`); the accounts hold what was
admitted.

Reading order: `entries`, `admissibility`, `nomination` (flavors and targets of one head), `entryorder`, `cycle`, then
`pending`: the queues between cycles.
"""
