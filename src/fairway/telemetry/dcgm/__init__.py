"""What does dcgm-exporter say of a fleet's GPUs?

`counters` reads the files that choose fields and name them, `identity` gives series their labels, `source` answers
PromQL from a fleet, `page` writes a node's exposition.
"""
