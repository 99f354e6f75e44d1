"""What does the API say after a decision? Conditions of Workloads, and events, word for word as Kueue.

In: a decision of a cycle. Out: `statuses` (functions from object to object) and `events` (type, reason, message).
"""
