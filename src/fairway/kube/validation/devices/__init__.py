"""What the API server refuses of devices and claims: resource.k8s.io/v1.

In: an object of one of the four kinds, its shape checked; for an update the object as it was. Out: `Problem`s in
upstream's order and words. Values that Go shows as structs are shown as structs (`gostructs`).

Reading order: `parts` (names, selectors, tolerations, configuration), `requests` (claims, templates, classes),
`slices`, `statuses` (what schedulers and drivers write into claims), `updates` (what may not change).

Source: pkg/apis/resource/validation/validation.go (v1.36, features at their defaults). Declarative validation of the
group is in its alpha stage there: it runs in the shadow and refuses nothing.
"""
