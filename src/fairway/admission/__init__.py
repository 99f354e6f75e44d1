"""Admission: who may do what, what may enter the cluster, and how does it look once it is in?

In: a read-only view and an object about to be created, or a whole request. Out: the object as it is admitted, with
the quota charges that go with it, or a refusal in the API server's words. Nothing here writes, and nothing here
calls anybody: a webhook's call is handed out as data.

One way in: `door`, for simulations, the served API, controllers and trials on files alike.

Reading order: `door`; `request`, `chain` and `intree`: the stages, in kube-apiserver's order; the built-in plugins
`namespace`, `limitranger`, `priority`, `quota`, `serviceaccount`,
`runtimeclass`, `defaultclasses`, `podtolerations`, `nodes`; the packages
`rbac/` (may this user do that?), `podsecurity/`, `cel/` (the expression language), `policies/` and `webhooks/`
(`configured`: both, loaded where somebody configured one);
`crdrules` (rules in custom resources' schemas); `gpupolicies/` (the policy set that ships) and `trial` (manifests
tried at the door).
"""
