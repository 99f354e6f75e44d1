"""What are the records of a Slurm cluster? Plain data: no decision, no text.

Order to read: `tres` (counts by name), `node`, `partition` (with reservations and licences), `association` (accounts,
QOS and their limits), `job` (what was asked, what is kept), `archive` (ended runs).
`fairway.slurm.cluster` holds all of it.
"""
