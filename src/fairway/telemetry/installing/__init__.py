"""What does monitoring of a GPU cluster consist of? Manifests of exporters, what to scrape, rules, dashboards.

`exporters.yaml`, `monitors.yaml`, `rules/` and `dashboards/` are the set, as data; `bundle` reads it; `scrapeconfigs`
makes a Prometheus configuration of ServiceMonitors and PodMonitors, as the Prometheus Operator would, for a Prometheus
that reaches pods through the API server.
"""
