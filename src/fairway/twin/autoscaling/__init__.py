"""Autoscalers at work: who looks at what when, what they measure, and carrying out what they decide.

`component` is the one component of them all; until the first autoscaler or description of load is there it watches
nothing but their kinds. `podindex` finds pods by label, `loads` lets pods use and report what a load describes,
`measuring` answers what autoscalers ask (`adapting`: by a Prometheus Adapter's rules), `horizontal`, `keda` (with
`probing` and `kedajobs`), `vertical` and `knative` run them, `journal` keeps what they did.
"""
