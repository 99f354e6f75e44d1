"""LeaderWorkerSet: replicas that are groups of pods, a leader and its workers, restarted and rolled out as one.

In: a LeaderWorkerSet or one of its pods. Out: a StatefulSet of leaders, one of workers for each leader, headless
services, leaders to delete, the next status, events. Pods are the StatefulSet controller's.

Reading order: `decide` (the set: its leaders and its status), `groups` (a leader's workers, and the restart of a
group), `marks` (labels, annotations, and what is written into a pod as it enters).

Source: kubernetes-sigs/lws pkg/controllers, pkg/webhooks (main of 2026-08, API v1).
"""
