"""What is a GPU's inside: how is it cut, shared and broken, what do nodes say of it, and which way of cutting pays?

In: models of the catalog, mig-parted's and the device plugin's configuration, ClusterPolicy, workload mixes. Out:
layouts of MIG instances, resources and labels of a node, what each operand does next, speeds of co-tenants, plans.
Nothing here writes an object or knows the time; `twin.devices` carries it out. Where instances can be on a card is
the catalog's (`catalog.placements`).

Reading order: `packing` (fewest cards for instances), `migconfig` and `migapplying` (mig-parted's files, and what they
make of cards), `pluginconfig` and `advertising` (the device plugin's files, and what nodes say by them), `policy`
(ClusterPolicy and its DaemonSets), `nodeview` (what stands on a node), `operating` (what happens next there),
`migmanager` (when the label for a MIG configuration changes), `upgrading` (drivers), `checklist` (why there are no
GPUs), `assigning` (who gets which device), `interference` (how fast on a part of a card), `layouts` (which way pays),
`partitioning` and `partitionplay` (cutting idle cards anew for what waits, and how jobs fare by it), `mixreading`,
`breaking` (how cards fail, and how often), `collectives` (how long NCCL's operations
take). `numa/`: where inside a machine CPUs, memory and devices come from.
"""
