"""Admission: who may do what, what may enter the cluster, and how does it look once it is in?

In: a read-only view and an object about to be created, or a whole request. Out: the object as it is admitted, with
the quota charges that go with it, or a refusal in the API server's words. Nothing here writes, and nothing here
calls anybody: a webhook's call is handed out as data.

Two ways in. `admit` is the twin's: workloads only, creations only, as fast as it goes. `chain` is the API server's:
every operation, every plugin, in kube-apiserver's order.

Reading order: `admit`; the built-in plugins `namespace`, `limitranger`, `priority`, `quota`, `serviceaccount`,
`runtimeclass`, `defaultclasses`, `podtolerations`, `nodes`; then `request`, `chain` and `intree`; the packages
`rbac/` (may this user do that?), `podsecurity/`, `cel/` (the expression language), `policies/` and `webhooks/`;
`crdrules` (rules in custom resources' schemas); `gpupolicies/` (the policy set that ships) and `trial` (policies
tried on files).
"""
