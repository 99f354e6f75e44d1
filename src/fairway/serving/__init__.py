"""What becomes of requests: when does each get its first token, its last one, or none at all?

In: requests (`traffic`: made or recorded), a model and a GPU, how many replicas there are and who gets what. Out: for
every request when it was begun, answered and finished, and where; for every replica what it holds. Nothing here knows
pods: who runs, drains or dies is said by the caller, between two slices of time.

Reading order: `models` (a language model's sizes), `steptimes` (how long one step of a model server takes on a GPU),
`pipelines` (and one of an image pipeline), `batching` (a fleet, step by step: continuous or in whole batches), `slots`
(one queue of whole requests), `traffic` (arrivals), `fleet` (replicas that come and go), `readings` (percentiles,
goodput, cost), `published` (how far all this is from what others measured).
"""
