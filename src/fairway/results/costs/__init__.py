"""What did a run cost, who owes it, and what was it worth?

In: a run, and a catalog with prices. Out: one `Costed` run, and from it figures, shares of common costs, unit costs,
budgets, showback; as text, HTML, CSV and charts. Money is integer micro-dollars until it is written for people; hours
that nobody priced are told beside the money, never counted as free.

Reading order: `costing` (a run becomes a bill), `figures` (where the money went), `breakdown` (by whom, common costs
laid on them), `borrowing` (quota of others), `unitcosts` (per epoch, experiment, 1,000 requests, idle hour),
`budgets` and `budgetreading`, `showback` (months and trends), `answers` (all of it together); then how each is
written: `money`, `costtext`, `showbackhtml`, `trends`, `exports`. `lessons` is what a run tells planners.
"""
