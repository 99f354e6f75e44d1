"""The shapes of Kubernetes' own kinds, as tables of facts. Read by `validation.schema`."""
