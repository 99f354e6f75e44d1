"""What real engines did, replayed: does Fairway agree?

In: a recording file. Out: how many of its steps agree, and every difference. `placements` replays pods placed
by kube-scheduler; `kueue_tables` runs rows of Kueue's decision tables.
"""
