"""Prompts are read on some servers and answers written on others: when does each request get its tokens?

The cache of a prompt travels over the network in between (`link_bytes_per_s`). Whoever writes computes one token anew.

Source: DistServe (OSDI 2024); vLLM's disaggregated prefilling.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairway.serving import batching as b
from fairway.serving.fleet import Fleet, Gateway
from fairway.serving.steptimes import Deployed
from fairway.serving.traffic import Requests


def served_apart(
    requests: Requests,
    reads: tuple[Deployed, int],
    writes: tuple[Deployed, int],
    link_bytes_per_s: float = 50e9,
    gateway: Gateway | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """`batching`'s tables of all requests. `reads`, `writes`: the servers of each kind, and how many."""
    gateway = gateway or Gateway()
    first = Fleet(reads[0], replace(requests, output=np.ones_like(requests.output)), gateway)
    first.add(reads[1])
    first.drain()
    when, what = first.when.copy(), first.what.copy()
    what[:, b.OUTPUT] = requests.output
    goes_on = np.flatnonzero((what[:, b.STATUS] == b.DONE_WELL) & (requests.output > 1))
    model = reads[0].model
    travels_s = what[goes_on, b.PROMPT] * model.cache_values * reads[0].kv_bytes / link_bytes_per_s
    comes_s = when[goes_on, b.DONE] + travels_s
    order = np.argsort(comes_s, kind="stable")
    goes_on, comes_s = goes_on[order], comes_s[order]
    rest = Requests(
        comes_s, requests.prompt[goes_on] + 1, requests.output[goes_on] - 1, requests.session[goes_on]
    )
    second = Fleet(writes[0], rest, gateway)
    second.what[:, b.SAVED] = rest.prompt - 1
    second.add(writes[1])
    second.drain()
    when[goes_on, b.DONE] = second.when[:, b.DONE]
    what[goes_on, b.STATUS] = second.what[:, b.STATUS]
    return when, what
