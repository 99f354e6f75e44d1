"""Metering: who owes how much of what the machines cost, to the micro-dollar?

In: machines (when they were there, what they offer, what an hour costs) and stays (who held which part of one,
from when to when, and how much of it was used). Out: a ledger whose every cell — one machine, one stretch of
time, one price — is owed in full: by owners, by the system, or by nobody (unallocated). Sums are exact: integers
and largest remainders, never rounded floats.

Nothing here knows a clock, a store or a scenario; `results` turns the tables of a run into machines and stays.

Reading order: `ground` (what is metered), `rates` (what an hour costs, and when nobody says), `cells` (time cut
at prices and charge periods), `split` (how much of a machine's price are its GPUs), `apportion` (exact
division), `ledger` (all of it together), `devices` (MIG and shared GPUs as parts of whole ones), `bill` (the ledger
as a table), `distribution` (common costs), `borrowing` (quota of others), `focus` (the export); then `planning/`.
"""
