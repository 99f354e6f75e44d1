"""Does Fairway do with devices and claims what the real control plane did?

In: recordings of Dynamic Resource Allocation. Out: which rows agree, and where the others differ.

Reading order: `validation` (what the API refuses), `clusters` (who gets which devices: rows and what differs),
`playing` (one of them in a twin), `observing` (what of it is compared).
"""
