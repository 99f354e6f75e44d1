"""Does Fairway do with devices and claims what the real control plane did?

In: recordings of Dynamic Resource Allocation. Out: which rows agree, and where the others differ.

Reading order: `validation` (what the API refuses).
"""
