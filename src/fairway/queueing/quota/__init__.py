"""Who holds quota now, how much is left, and who borrows from whom?

In: facts of queues, cohorts and flavors, and the Workloads that hold quota. Out: the accounts of a cycle, kept change
by change; what-ifs change them and put them back.

Reading order: `quotatree` (the tree), `shares` (dominant resource share), `lending`, `inactivity`, `accounts` (all of
it together), `queueusage` (admission fair sharing).
"""
