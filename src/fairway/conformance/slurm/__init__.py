"""Do Slurm's commands here print what the real ones printed, and does its scheduler start what the real one started?

`comparing` says which differences are the clock's and the machine's, `commands` plays a recording: every command in a
shell, with this package's commands on PATH, against a controller whose virtual time follows the recording's.
`atlas/` is the cluster that the recordings were made on.

`scheduling` plays scenarios (jobs, their runtimes, what administrators did) and compares what became of every job;
`scripts` says how long a recorded script would sleep; `sched/` has that cluster's GPUs and accounts.
"""
