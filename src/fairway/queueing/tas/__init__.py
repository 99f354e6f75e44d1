"""Topology-aware scheduling: in which domains (racks, hosts) do the pods of a workload go?

In: the topology of a flavor with what its nodes have free, and what pod sets ask (all in one domain, preferably
in one, anywhere; in slices). Out: pods per domain, or the reason there is no place.

Reading order: `requests`, `tree`, `matching` (which nodes may be used), `capacity` (how many pods fit where),
`levels` (on which level, in which domains), `distribution` (how many pods each takes), `balanced` (evenly),
`replacement` (one node for another), `elastic` (growing jobs), `search` (all of it).

Source: pkg/cache/scheduler/tas_*.go; KEP-2724.
"""
