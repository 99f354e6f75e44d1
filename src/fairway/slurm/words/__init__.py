"""How does Slurm write and read its words: lists of hosts, durations, times, sizes, errors?

Pure text both ways, for the configuration's reader, the controller and the commands alike. Imports nothing of the
controller. Source: Slurm 22.05.8.

Reading order: `hostlist` (`gpu[01-03,07]`), `durations` (`1-02:03:04`, `now+1hour`), `sizes` (`10G`, TRES strings),
`errors` (every ESLURM name with its sentence).
"""
