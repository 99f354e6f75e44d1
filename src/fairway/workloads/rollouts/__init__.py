"""How does an Argo Rollout get from one version to the next, and when does it turn back?

In: a Rollout with the canary strategy, its ReplicaSets, Services, HTTPRoute and AnalysisRuns. Out: actions. What
measurements mean is said here; who takes them is `fairway.twin.analysisruns`.

Reading order: `facts` (a Rollout as it stands), `counts` (how many pods of which version), `traffic` (Services and
weights), `analyses` (which AnalysisRuns there should be), `measuring` (what measurements make of an AnalysisRun),
`conditions` (expressions over results), `status`, `decide`.

Source: argo-rollouts v1.9 rollout/, analysis/, utils/replicaset, utils/evaluate.
"""
