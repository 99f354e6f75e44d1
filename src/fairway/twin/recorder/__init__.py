"""What happened to whom: a component that watches a twin and keeps tables of outcomes.

    recorder = Recorder()
    twin = Twin(components=[*default_components(), recorder])
    twin.run(...)
    outcome = recorder.outcome()

Reading order: `tables` (the answer's types), `recorder` (what it watches), `podledger`, `nodeledger`,
`workloadledger` (columns being filled), `series` (the cluster over time).
"""
