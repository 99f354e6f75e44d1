"""Deployment: move from one ReplicaSet to the next without losing more pods than allowed.

In: a Deployment and its ReplicaSets. Out: ReplicaSets to create, scale and delete; its status; events.

Reading order: `rollout` (the decision), `sets` (the ReplicaSets while it is made), `rolling` and `scaling`
(how many replicas each gets), `revisions` (which ReplicaSet is the new one, numbers and annotations),
`status` (counts and conditions), `undo` (going back to an earlier revision).

Source: pkg/controller/deployment (v1.36).
"""
