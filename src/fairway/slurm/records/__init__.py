"""What has a site written down of its jobs, and how does its cluster go on from there?

In: what `sacct -P` or `-p` prints (or the same as CSV), `scontrol show job` and `show node`, `squeue --json`. Out:
`JobRecord`s, and slurmctlds that stand at a moment of them (`reviving`) or play them from the first submission on
(`replaying`). Every file is untrusted: what cannot be read is a located problem.

Reading order: `record`, `sacct`, `scontrol` (with squeue's JSON), `runtimes` (how long jobs of a kind run),
`reviving`, `replaying`.
"""
