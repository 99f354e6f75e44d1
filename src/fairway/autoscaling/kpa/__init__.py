"""How many pods should a Knative Revision have? As Serving's autoscaler (KPA) decides.

In: `config-autoscaler`, the annotations of a Revision, and requests over time. Out: frozen decisions. Nothing here
reads a clock or writes.

How it is fed: make `Measured(spec)`, and once a second of virtual time call `record(at_us, concurrency, rps)` with the
requests in flight (averaged over that second) and the requests that began in it, summed over all pods and what the
activator holds. Every `TICK_US` (and at once when the first request meets no pod) call
`decide(spec, memory, measured.averages(now_us), ready, now_us)`; it answers with the pods wanted and the excess burst
capacity, and with the memory for the next call. `scale_to` turns that into replicas: bounds, initial scale, and the
way to zero.

Reading order: `settings` (the ConfigMap), `specs` (annotations), `windows` (averages over time), `deciding`,
`scaling` (bounds, scale to zero, the condition Active).

Source: knative/serving pkg/autoscaler, pkg/reconciler/autoscaling (main, 2026-08).
"""
