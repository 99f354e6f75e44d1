"""What hardware can be had, where, and at what price?

GPU models with their MIG profiles, instance types of the clouds with their zones, and prices by capacity type,
commitment, place and date: data files in `data/`, which a user's own files (`PriceBook`, `InstanceCatalog`,
`GPUCatalog`) add to and override. Money is integer micro-dollars per instance and hour. What has no price is
answered `Unpriced`, with the reason: it is never zero.

In: YAML files. Out: one `Catalog`. It decides nothing and knows no cluster.

Reading order: `gpus` (models, MIG profiles), `instances` (types, regions), `prices` (entries, the answer to "what
does it cost"), `reading` (documents into those), `catalog` (everything, and the one loader), `boards` (how servers
are built).
"""
