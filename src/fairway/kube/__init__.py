"""The vocabulary: what do these Kubernetes words mean, exactly?

In: Kubernetes YAML or JSON. Out: plain objects (nested dicts, kept whole so that unknown kinds and fields
survive a round trip) and typed facts derived from them. Objects are frozen by convention: whoever wants a
different one builds a new dict that shares what did not change.

This room knows no clock, no store and no policy; everything else imports it and it imports nothing.

Reading order: `kinds` (names and scopes of kinds), `objects` (reading plain objects), `quantity`, `resources`
(vectors), `podrequests` (what a pod asks for), `labels` (selectors), `nodeselection` (node affinity), `taints`,
`volumes`, `timestamps`, `durations`, `cron`, `conditions`, `events`, then `manifest` (files in and out; `yamltext`
and `jsontext` read, `manifestwriting` writes), `located` (fields of our own documents), `validation` (what is wrong
with them), `schema` (every kind's fields, as the API server knows them) and `defaults` (what the API server fills
in).
"""
