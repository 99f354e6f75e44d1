"""What do rules record, and which alerts fire when?

In: PrometheusRule objects or rule files, a `SeriesSource`, a span of time. Out: alerts with the times at which they
were active, fired and ended, what was recorded, and which evaluations failed and why.

Reading order: `reading` (files and objects to groups), `evaluating` (groups over a span), `alerts` (one rule's state),
`alertseries` (`ALERTS`), `dividing` (in two processes),
`expanding` and `gotemplates` (labels and annotations).
"""
