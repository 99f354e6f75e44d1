"""What would be different? The same cluster and the same luck, once as it is and once changed.

In: a ground, changes (nodes, quota, load, manifests applied, patched or deleted), seeds. Out: the measures of
`results.compare` side by side, with error bars over seeds; or the smallest number that meets an objective.

Reading order: `changes` (what can be changed), `playing` (one seed, both ways), `comparing` (over seeds), `searching`.
"""
