"""Which NodeClaims would Karpenter create, and which nodes would it disrupt?

In: NodePools, instance types with their offerings, nodes, pods, DaemonSets, PodDisruptionBudgets. Out: `Results` (new
NodeClaims with their pods, existing nodes with theirs, and why the rest fits nowhere) and `Command`s (delete or
replace these nodes). Nothing here knows the store, a clock or chance; ties that Karpenter breaks by the order of a
hash map are broken by name.

Reading order: `labels`, `requirement` and `requirements` (the algebra), `nodepools` (NodePool as data, v1beta1 too)
and `nodepoolchecks` (what is wrong with one), `instancetypes` (types and offerings, from the catalog) and `fleet`
(bit sets over them), `podfacts` and `relaxing` (pods by shape), `volumetopology` (where volumes are), `claimfacts`,
`statenode`, `nodes` (all of them at once) and `world` (what is decided from), `topologygroups` and `topology` (spread,
affinity), `claims`, `gosort`, `claimline`, `existing` (candidates for a pod), `packing` (the scheduler), `unplaceable`
(who need not be tried again), `why` (its error texts), `planned` (what it decided), `nodeclaims` (a NodeClaim as an
object, and its life), `launching` (where it is launched), `batching`, `events`, then `disruption/`.

Source: kubernetes-sigs/karpenter main of August 2026 (after v1.9), unless a docstring says otherwise.
"""
