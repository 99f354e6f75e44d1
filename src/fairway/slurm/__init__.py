"""Slurm beside Kubernetes: what would slurmctld decide, and what would its commands print?

`words/` reads and writes Slurm's texts, `commands/` are sbatch, squeue and the others: options in, the real commands'
words and exit codes out. Facts (errors, options) are data in `data/`, imported from Slurm 22.05.8 by
`tools/importing/slurm.py`.
"""
