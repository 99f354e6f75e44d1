"""PodDisruptionBudget: how many more pods may be taken away on purpose?

In: a budget, the pods it selects, who scales them. Out: the budget's status; and for one pod, whether it may
be evicted now and what that writes.

Reading order: `budget` (expected, desired and healthy pods, disruptions allowed), `eviction` (the Eviction
subresource).

Source: pkg/controller/disruption/disruption.go; pkg/registry/core/pod/storage/eviction.go (v1.36).
"""
