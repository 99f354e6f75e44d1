"""Do Slurm's commands here print what the real ones printed?

`comparing` says which differences are the clock's and the machine's, `commands` plays a recording: every command in a
shell, with this package's commands on PATH, against a controller whose virtual time follows the recording's.
`atlas/` is the cluster that the recordings were made on.
"""
