"""What do the devices that a Workload's pods claim count as, in the quota of its ClusterQueue?

In: a Workload, `deviceClassMappings` of Kueue's Configuration, and what is there of claim templates, DeviceClasses and
ResourceSlices. Out: a `Charge` (resources per pod set that are counted besides, and extended resources counted under
another name), or why the Workload is inadmissible, in Kueue's words.

Reading order: `mapping` (which class counts as what), `charging` (the whole answer), `requests` (one request of a
claim: is it supported, how many devices), `matching` (which devices selectors choose), `sources` (counters of
partitions, capacity of shared devices), `extended` (extended resources backed by classes).

Source: pkg/dra, pkg/controller/core/workload_controller.go handleDRA (main, 2026-08); KEP-2941.
"""
