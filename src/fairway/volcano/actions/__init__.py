"""Volcano's actions, each a function over a session, run in the configured order.

Reading order: `choosing` (which nodes would do, which is best), `enqueue` (whose pods may be made), `allocate`
(gangs onto nodes), `preempt` (from lower priority in one queue), `reclaim` (from queues that have more than they
deserve), `backfill` (pods that ask for nothing).
"""
