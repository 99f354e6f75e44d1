"""StatefulSet: pods with names of their own, started, updated and stopped in order.

In: a StatefulSet, its pods, claims and revisions. Out: pods and claims to create or delete, its status.

Reading order: `decide` (the order of things), `identity` (names, ordinals, revisions of pods), `storage`
(volume claims and how long they are kept).

Source: pkg/controller/statefulset (v1.36), with MaxUnavailableStatefulSet, PodIndexLabel and
StatefulSetAutoDeletePVC on, as they are by default.
"""
