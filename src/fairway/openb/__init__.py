"""What does a placement policy do to Alibaba's public GPU trace?

In: a node list and a pod list of the openb trace (CSV), a policy, a seed. Out: how much GPU is allocated and
how much of the free GPU is fragmented, by the share of GPU demand that has arrived; or, in the trace's own
time, allocation over its 149 days and who waited.

Read `trace` (the files), `workload` (both as tables), `arrivals` (the FGD paper's experiment), `curves` (its
results by arrived percent), `own_time` (creation and deletion stamps). `gorand` draws the published runs'
random numbers.
"""
