"""When may Kueue's next request of a kind go out?

Its client holds back requests beyond a rate: a bucket of tokens per kind, since controller-runtime builds a client,
and with it a limiter, for each. Whoever finds the bucket empty is given the time of a token to come, in the order
of asking. Under load this, and not the decisions, is what Workloads wait for.

Source: controller-runtime pkg/client/client_rest_resources.go, client-go rest/config.go (RESTClientForConfigAndClient),
client-go util/flowcontrol/throttle.go.
"""

from __future__ import annotations

from fairway.kube.timestamps import SECOND_US


class Requests:
    """The buckets. `qps` 0: no limit. Data only."""

    def __init__(self) -> None:
        self._each_us = 0
        self._ahead_us = 0
        self._spent_until_us: dict[str, int] = {}
        """By kind: when the bucket would be full again, had nobody asked since."""

    def limit(self, qps: int, burst: int) -> None:
        self._each_us = SECOND_US // qps if qps else 0
        self._ahead_us = burst * self._each_us

    @property
    def is_limited(self) -> bool:
        return self._each_us > 0

    def take(self, gk: str, now_us: int) -> int:
        """Take a token; returns when the request may go out."""
        each_us = self._each_us
        if not each_us:
            return now_us
        until_us = max(self._spent_until_us.get(gk, 0), now_us) + each_us
        self._spent_until_us[gk] = until_us
        return max(now_us, until_us - self._ahead_us)

    def copy(self) -> Requests:
        twin = Requests()
        twin._each_us, twin._ahead_us = self._each_us, self._ahead_us
        twin._spent_until_us = dict(self._spent_until_us)
        return twin
