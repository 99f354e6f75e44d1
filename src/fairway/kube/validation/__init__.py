"""What is wrong with a Kubernetes object, as the API server would refuse it, and where in the file?

In: plain objects or manifests. Out: `Problem`s in Kubernetes' own words, and `FieldProblem`s with file and
line. It knows the built-in kinds a GPU platform meets; custom kinds pass with their metadata checked.

Reading order: `kube.problem` (how a fault is said; `kube.internals`: how a value is shown), `kube.schema` (fields and
types; `schema.misfits`: what does not fit them), `kinds` (the rules), `training` (kinds of distributed training),
`validating` (the steps for one object), `checking` (many).
"""
