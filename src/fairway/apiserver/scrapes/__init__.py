"""What do exporters on a served cluster answer? The pages that Prometheus finds by service discovery.

An exporter is a pod whose image says so: dcgm-exporter, kube-state-metrics, node-exporter, and the cluster's own
controllers. `pages` knows who has which page, `twin.gpupages` what the GPUs do now, `nodes` writes pages of
kubelets and of node-exporter. Who asks comes through the API server's proxy (`subresources.podproxy`) or a forwarded
port.
"""
