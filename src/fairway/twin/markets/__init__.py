"""When does a cloud take spot capacity back, and what does it say before?

In: the nodes of a twin, hazard rates per offering, a recorded series. Out: a hint (where the cloud gives one), a
notice, and, when the notice is over, a machine that is gone. What is done about the notice is another's business:
Karpenter (`twin/provisioner`) taints, drains and replaces; without it the kubelet shuts down within the notice.

Reading order: `plan` (rates, series, notices of the clouds), `recorded` (CSV), `component`.
"""
