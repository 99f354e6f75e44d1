"""What does kube-state-metrics say of objects?

`families.tsv` has the metrics as data: which kind, how the value is read off an object. `rules` reads values, `details`
those that take more than a path, `families` puts both together, `page` writes an exposition.

Labels of objects are all shown, as with `--metric-labels-allowlist=…=[*]`, which most queries take for granted.
"""
