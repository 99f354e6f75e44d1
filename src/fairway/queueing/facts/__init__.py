"""What do Kueue's objects and Workloads say? Typed facts, computed once per spec.

In: Kueue's configuration objects and Workload objects, as dicts. Out: frozen facts of flavors, queues, cohorts,
topologies and checks (`objects`), of what a Workload asks for and holds (`workloads`), predicates over its status.

Reading order: `gates` and `featuregates`, `amounts`, `objects`, `podsets` (with `limits` and `transformations`),
`topologyassignments`, `conditions`, `workloadstate`, `workloads`, `adjusting`.
"""
