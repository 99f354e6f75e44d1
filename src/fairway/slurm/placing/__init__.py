"""On which nodes, cores and devices would select/cons_tres put a job?

In: a `Need` (what a job asks, in select's terms), the nodes' configurations and a `Use` of each (what is taken). Out: a
`Placement`, or None. Pure: nothing here changes a record, and a what-if passes other uses.

Order to read: `need`, `fitting` (what of one node a job can have), `choosing` (which nodes), `cores` (how many
and which cores of each), `devices` (which GPUs), `placing` (all of it, with what may be preempted or shared).
Source: src/plugins/select/cons_common and cons_tres, 22.05.8.
"""
