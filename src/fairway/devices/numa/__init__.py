"""Where inside a machine do a container's CPUs, memory and devices come from, and is it let in? The kubelet's managers.

In: a machine (CPUs, memory and devices by NUMA node), what the kubelet is configured to do, what was given out so far,
a pod. Out: a book with what the pod was given, or why it is rejected, in the kubelet's words. Nothing here keeps state:
books are passed in and given back.

Reading order: `hints` (the topology manager: which NUMA nodes), `cputopology` and `cpupicking` (which CPUs), `cpus`
(the CPU manager's static policy), `memory` (the memory manager's), `devices` (the device manager's), `options` (what
KubeletConfiguration says), `admitting` (a pod at the door of a machine), `machines` (what a
node is).

Source: pkg/kubelet/cm/{topologymanager,cpumanager,memorymanager,devicemanager} (v1.36). Left out: resources of pods as
a whole (the alpha gate PodLevelResourceManagers), and allocation after a restart.
"""
