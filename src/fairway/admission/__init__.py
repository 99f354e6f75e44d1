"""Admission: what may enter the cluster, and how does it look once it is in?

In: a read-only view and an object about to be created. Out: the object as it is admitted, with the quota
charges that go with it, or a refusal in the API server's words. Nothing here writes.

Reading order: `admit` (all of it, in the order of kube-apiserver's plugins), `namespace` (may anything be
created there?), `limitranger`, `priority`, `quota`.

Source: pkg/kubeapiserver/options/plugins.go AllOrderedPlugins (v1.36).
"""
