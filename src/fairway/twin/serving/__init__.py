"""Which pods answer a Service's requests, and what do clients see while pods come, go and are replaced?

In: descriptions of served models and their traffic, pods and Services of the twin. Out: requests answered or lost, and
the metrics that autoscalers and reports read. The arithmetic is `fairway.serving`'s; here is who is an endpoint when.

Reading order: `served` (what is described), `component`.
"""
