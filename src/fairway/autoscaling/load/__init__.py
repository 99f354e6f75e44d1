"""What load is there? Series, shared load and queues, as a scenario or a ConfigMap describes them.

In: a description (`reading`) of curves over time. Out: values at a time, and when they change next. `curves` has
values over time, `queues` messages that arrive and are consumed.
"""
