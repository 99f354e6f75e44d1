"""When will it start, when will it end, and how sure is that?

In: a cluster's objects at one moment, and what is known of jobs that were there before (`History`). Out: for every
pending object the start and the finish as P10, P50 and P90, what lies ahead for queues, allocation and spend, and how
well such forecasts did before.

Futures are copies of the cluster run forward: run times drawn from what is known of similar jobs, arrivals resampled
by hour and weekday, losses of nodes and pods by their rates. Nothing here reads the wall clock; all chance comes from
one seed.

Reading order: `history` (jobs as they were), `runtimes` (how long may it run, given that it ran so long already),
`arriving` (what else will come), `losses` (what will be lost), `situation` (what a future starts from), `quick` over
`boards` (room on nodes) and `quotas` (Kueue's, by way of `claims`), or `twins` (one future: counted, or by the true
engines), `futures` (many of them, on several processes), `forecast` (the answer), `calibration` (intervals as wide as
they should have been), `baselines` and `backtest` (how good is it, beside simpler ways), `keeping` (what was learnt,
for later forecasts).
"""
