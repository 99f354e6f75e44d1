"""The state: what is there, how did it get there, and how much of every node is taken?

One `Store` of plain objects with resource versions, a change log anyone can follow, and indexes derived from
it (dependents by owner, accounts per node). One writer: whoever runs the event loop. Nothing here decides
anything; engines read it, their callers write to it.

In: objects and patches. Out: objects, changes, arrays of free capacity.

Reading order: `errors` (what the API would answer), `changes` (the log), `metadata` (what the API server
stamps), `store` (create, replace, patch, delete), `patches` (with `jsonpatch`, `strategicpatch`), `owners`
(who depends on whom), `garbage` (what an owner's end ends), `quotausage` (what counts against quotas),
`shapes` and `records` (what placement sees of a pod), `accounts` (arrays per node), `podcounts` and `devices`
(pods per selector, GPUs by index), and `actions` (what controllers want done, and the one place that does
it).
"""
