"""The questions of `answers/`, asked of a Slurm site: why does a job wait, when will it start, who owes what?

In: a `SlurmMoment` of `ground/slurmground`. Out: frozen answers in Slurm's own words with the numbers behind them;
`texts` renders them. Every change that is proposed was tried on a slurmctld of its own; nothing of the site is touched.

Reading order: `planning` (what both schedulers say now), `shortfalls` (which limit, by how much), `explaining`,
`checking`, `forecasting` (ours beside Slurm's, and both backtested), `owing`, `free`, `telling` (what was), then
`migrating` with `otherside`: the same accounting replayed by Slurm's rules and by Kueue's.
"""
