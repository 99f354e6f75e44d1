"""Which work arrives when? Sources of workloads over time, and one format they all convert to.

In: files (the generic job format as CSV, JSONL or Parquet; openb CSV; kubectl dumps) or a generator's recipe.
Out: `TraceJob`s in the order of their submission, which become Jobs or Pods with behaviour annotations.

Reading order: `jobs` (one row), `generic` (the documented format, in and out), `rows` (what may stand in a
column), `clusterdump`, `openbjobs`, `generate`, `scaling` (window, time, load), `sources` (a source by its
name), `arrival` (from rows to Kubernetes objects), `component` (arrivals on the loop), `describe`.
"""
