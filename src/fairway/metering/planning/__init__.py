"""Planning in money: what would another way of buying or cutting GPUs cost?

In: prices of the catalog, and a few numbers about the work (how often it is interrupted, what a checkpoint takes, how
much is needed when). Out: frozen answers. Each is a formula or an optimisation with its source; none looks at a
cluster.

Reading order: `spot` (interruptions and checkpoints), `commitments` (reserved, on-demand and spot for a load curve),
`rightsizing` (whole GPUs against MIG slices), `hours` (machines that are not always on).
"""
