"""What do the machines, the work and the control plane say of themselves, as series over time; and what follows?

In: sources of samples under the exporters' own names (`store`). Out: answers to PromQL, rules that fire, and what an
Alertmanager would send. Nothing here reads a clock, opens a socket or writes.

Reading order: `store` (samples, matchers, where they come from), `gpus` (what every GPU does), `dcgm` and
`statemetrics` (what exporters say of it), `steps` (series of what tables say), `exposition` (Prometheus' text),
`promql` (questions), `rules` (alerts), `alertmanager` (who hears of them).
"""
