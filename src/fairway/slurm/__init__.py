"""Slurm beside Kubernetes: what would slurmctld decide, and what would its commands print?

In: the texts of slurm.conf and gres.conf (`conf/`), accounts (`model/association.py`), what users and administrators
ask. Out: the state of jobs and nodes (`model/`), and what the commands print of it.
Facts are of Slurm 22.05.8; records have whole seconds as slurmctld stores them, the clock is in µs.

Order to read: `words/` (texts both ways), `conf/`, `model/`, `cluster.py` (all state); what decides: `submitting`,
`limits`, `priority`, `queueing`, `selecting` with `placing/`, `preemption`, `reservations`, `dependencies`, then both
schedulers `mainpass` and `backfill` (which looks `ahead`); what carries it out: `lifecycle` with `sharing`,
`controller`, `steering`, `administration`.
`commands/` are sbatch, squeue and the others: options in, the real commands' words and exit codes out. Facts (errors,
options) are data in `data/`, imported by `tools/importing/slurm.py`. `sitefolder` reads a site with its accounts;
`converting/` is the way over to Kubernetes.
"""
