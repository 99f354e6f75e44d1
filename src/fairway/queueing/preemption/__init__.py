"""Preemption: which workloads give up their quota so that another one fits?

Everything here is a what-if on the accounts: candidates are taken out one by one until the preemptor fits, as
many as possible are put back, and in the end all of them are.

Reading order: `targets` (the types and common rules), `classical` (by priority and borrowing), `fairsharing`
(by dominant resource share), `preemptor` (which of the two, and the oracle the flavor search asks).

Source: pkg/scheduler/preemption; KEP-83, KEP-1337 (borrowWithinCohort), KEP-1714 (fair sharing).
"""
