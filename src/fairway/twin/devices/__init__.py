"""Devices on the loop: claims are bound for pods, pods leave tainted devices.

In: a scheduler's choice, slices, claims and pods. Out: what kube-scheduler's Reserve and PreBind and the
device-taint-eviction controller would write.

Also the GPU Operator (`gpuoperator`, deciding in `fairway.devices`), cards that break (`gpuhealth`) and HAMi (`hami`).

Reading order: `publishing` (what nodes have), `reserving` (beside the scheduler), `evicting`. The controller that makes
claims of templates and takes them back is `workloads.resourceclaims`; the choice itself `scheduling.dynamicresources`.
"""
