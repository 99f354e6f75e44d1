"""What does Kueue tell Prometheus: its metrics as data, ready for an exporter.

In: changes of Workloads, cycles, preemptions (`observing`); Kueue's objects and the lines of its queues (`gauges`).
Out: `Sample`s: a name, label values in the order of the family's labels (`families`), and a number, which a counter
adds, a gauge shows and a histogram observes.

Source: pkg/metrics/metrics.go (Kueue main, 2026-08).
"""
