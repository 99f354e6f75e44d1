"""Job: run pods until enough of them succeed, or give up.

In: a Job, its pods, the time. Out: pods to create and delete, finalizers to lift, the next status, events.

Reading order: `decide` (the decision, step by step), `census` (the Job's pods counted once), `verdict` (is it
over, and why), `upkeep` (how many pods it should have), `accounting` (what the status says afterwards),
`podspec` (the pods it creates), `indexes` (completion indexes as intervals), `failurepolicy`,
`successpolicy`, `backoff`, and `cleanup` (pods a vanished Job left behind, Jobs past their time to live).

Source: pkg/controller/job/*.go of Kubernetes (v1.36).
"""
