"""Who would have heard of these alerts, when, and what would have been said?

In: alerts with the times at which they fired and ended, and an Alertmanager's configuration. Out: notifications, and
their payloads. Nothing is sent.

Reading order: `configuration` (the file), `intervals` (times of day and year), `dispatching` (routes, groups,
inhibition, silences, what is told again), `payloads` (webhook, Slack, mail).
"""
