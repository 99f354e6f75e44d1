"""What do the machines, the work and the control plane say of themselves, as series over time; and what follows?

In: sources of samples under the exporters' own names (`store`). Out: answers to PromQL, rules that fire, and what an
Alertmanager would send. Nothing here reads a clock, opens a socket or writes.

Reading order: `store` (samples, matchers, where they come from), `promql` (questions), `rules` (alerts), `alertmanager`
(who hears of them).
"""
