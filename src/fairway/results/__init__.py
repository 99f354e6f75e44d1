"""What did a run do? Written down, read back, shown and compared.

In: an `Outcome` (twin.recorder). Out: a run directory, a terminal report, plots, one HTML file, a comparison,
and answers about fragmentation.

Reading order: `run` (a run at hand), `rundir` (on disk), `figures` (the numbers of a report), then the
renderings: `textreport`, `charts` over `drawing` (`svg`, `png`), `htmlreport`, `compare`. Queues have theirs:
`queuefigures`, `queuetext`, `queuecharts`, `queuehtml`, `queuecompare`. `fragmentation` and `queuestate` are by
themselves: they ask about a cluster at one moment, not about a run.
"""
