"""Which nodes may this pod go to, all filters together: over the whole cluster, and on one node after a what-if.

One `Filters` lives for one cycle. It is what kube-scheduler's PreFilter state is: whether a plugin has
anything to say is settled when it is made, from the pods that are there, and a what-if (pods nominated to a
node, victims taken away) does not change that.

Source: pkg/scheduler/framework/runtime/framework.go RunFilterPluginsWithNominatedPods; the AddPod and RemovePod
extensions of podtopologyspread and interpodaffinity (kube-scheduler v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from fairway.cluster.accounts import NodeAccounts
from fairway.cluster.records import PodRecord
from fairway.cluster.shapes import SpreadConstraint
from fairway.scheduling.dynamicresources import Answers, DynamicResources, PodLook
from fairway.scheduling.nodelocal import NodeLocal
from fairway.scheduling.podaffinity import affinity_refusals
from fairway.scheduling.podspread import Move, spread_refusals
from fairway.scheduling.profile import Profile
from fairway.scheduling.verdict import Refusal
from fairway.scheduling.volumes import VolumeFilter

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# Refusals beyond the node's own facts that evicting pods cannot mend.
# As plain integers: comparing an array with a member of an enumeration takes eight times as long.
_HOPELESS_AMONG_PODS: Final = (
    int(Refusal.SPREAD_LABEL),
    int(Refusal.POD_AFFINITY),
    int(Refusal.VOLUME_GONE),
    int(Refusal.VOLUME_AFFINITY),
    int(Refusal.VOLUME_BIND),
    int(Refusal.VOLUME_ZONE),
    int(Refusal.DEVICES_STALE),
    int(Refusal.DEVICES),
    int(Refusal.DEVICES_INVALID),
    int(Refusal.DEVICES_LATE),
    int(Refusal.CLAIM_UNAVAILABLE),
)


class RowRefusal(NamedTuple):
    """What the filters say of one node: a `Refusal` (0: it fits), what is short there, whether eviction helps."""

    code: int
    short: int
    is_hopeless: bool = False


class DeviceFilter(NamedTuple):
    """What DynamicResources says of nodes, to one pod."""

    plugin: DynamicResources
    look: PodLook
    answers: Answers

    def at(self, row: int) -> int:
        """Raises: AllocationError."""
        return self.plugin.code_at(self.look, self.answers, row)

    def unsettled(self, rows: Ints) -> tuple[Ints, Ints]:
        """Of a pod like others: those of these rows that did not say yes to the others, and what they said."""
        said = self.answers.codes[rows]
        which = said.nonzero()[0]
        return rows[which], said[which]

    def are_free(self, rows: Ints) -> bool:
        """Whether all of these rows say yes to a pod like others. Raises: AllocationError."""
        asked, said = self.unsettled(rows)
        if not len(asked):
            return True
        if int(said[said.argmax()]) > 0:
            return False
        return not any(self.at(row) for row in asked.tolist())


class Filters:
    """The filters of one cycle. `codes`: int64[row] of `Refusal`; read only, may be the NodeLocal's own array."""

    def __init__(
        self,
        accounts: NodeAccounts,
        profile: Profile,
        pod: PodRecord,
        local: NodeLocal,
        *,
        spread: tuple[SpreadConstraint, ...],
        nominees: Mapping[int, Sequence[PodRecord]],
        volumes: VolumeFilter | None = None,
        devices: DeviceFilter | None = None,
    ) -> None:
        """`spread`: the pod's hard constraints; `nominees`: by row, the pods it must leave room for; `volumes`: of a
        pod that has claims; `devices`: of one that uses devices, asked where nothing else refuses."""
        self._accounts = accounts
        self.pod = pod
        self.local = local
        self._spread = spread if profile.filters_with("PodTopologySpread") else ()
        self._nominees = nominees
        self._volumes = volumes
        self.devices = devices
        self._minds_pods = False
        self._overlaid: dict[int, RowRefusal] = {}
        self._owns_codes = False
        self.codes = self._everywhere(profile)
        if nominees:
            self._overlay()

    def _everywhere(self, profile: Profile) -> Ints:
        codes = self.local.refusal
        if self._volumes is not None:
            codes = np.where(codes == 0, self._volumes.codes, codes)
        if self._spread:
            spread = spread_refusals(self._accounts, self.pod, self.local, self._spread)
            codes = np.where(codes == 0, spread, codes)
        if profile.filters_with("InterPodAffinity"):
            apart = affinity_refusals(self._accounts, self.pod)
            if apart is not None:
                self._minds_pods = True
                codes = np.where(codes == 0, apart, codes)
        return codes

    def ask_devices(self, rows: Ints) -> None:
        """Settle what devices say of these rows, as far as nothing else refuses them. Raises: AllocationError."""
        if self.devices is None:
            return
        refused = self.codes[rows]
        asked = rows[refused == 0] if np.count_nonzero(refused) else rows
        if self.devices.look.is_alike:
            asked, said = self.devices.unsettled(asked)
            refusing = said > 0
            if refusing.any():
                self._own_codes()
                self.codes[asked[refusing]] = said[refusing]
                asked = asked[~refusing]
        for row in asked.tolist():
            code = self.devices.at(row)
            if code:
                self._own_codes()
                self.codes[row] = code

    def _own_codes(self) -> None:
        if not self._owns_codes:
            self.codes, self._owns_codes = self.codes.copy(), True

    def _overlay(self) -> None:
        """A node must also fit with the pods nominated to it; if it does not, that is the reason given."""
        for row, others in self._nominees.items():
            with_them = self._with(others, row, ())
            if with_them.code:
                self._overlaid[row] = with_them
        if self._overlaid:
            self.codes = self.codes.copy()
            for row, refusal in self._overlaid.items():
                self.codes[row] = refusal.code

    def at(self, row: int, moved: Sequence[Move] = ()) -> RowRefusal:
        """One node after a what-if. `moved` are the pods the caller put on it or took off it since.

        The node must fit with its nominated pods and without them.
        """
        nominees = self._nominees.get(row)
        if nominees:
            with_them = self._with(nominees, row, moved)
            if with_them.code:
                return with_them
        return self._at(row, moved)

    def is_about_room(self, row: int) -> bool:
        """Whether resources alone decide on this node, once its own facts allow the pod."""
        return self._is_about_room and row not in self._nominees

    @property
    def _is_about_room(self) -> bool:
        return (
            not self._spread
            and not self._minds_pods
            and self._volumes is None
            and self.devices is None
            and self.local.is_about_room
        )

    def _room_with(self, others: Sequence[PodRecord], row: int) -> RowRefusal:
        static = self.local.static_refusal(row)
        if static:
            return RowRefusal(static, 0, True)
        short = self.local.shortage_with(row, others)
        if not short:
            return RowRefusal(0, 0)
        return RowRefusal(Refusal.FIT, short, self.local.is_too_small(row))

    def _with(self, others: Sequence[PodRecord], row: int, moved: Sequence[Move]) -> RowRefusal:
        accounts = self._accounts
        if self._is_about_room:
            return self._room_with(others, row)
        for other in others:
            accounts.place(other, row)
        found = self._at(row, (*moved, *(Move(other, row, 1) for other in others)))
        for other in others:
            accounts.displace(other)
            other.devices = 0
        self.local.refresh()
        return found

    def _at(self, row: int, moved: Sequence[Move]) -> RowRefusal:
        accounts, local = self._accounts, self.local
        local.refresh()
        code = int(local.refusal[row])
        if code:
            return RowRefusal(code, int(local.short[row]), bool(local.is_hopeless[row]))
        if self._volumes is not None:
            code = self._volumes.at(row, moved)
        if not code and self._spread:
            code = int(spread_refusals(accounts, self.pod, local, self._spread, moved)[row])
        if not code and self._minds_pods:
            apart = affinity_refusals(accounts, self.pod)
            code = 0 if apart is None else int(apart[row])
        if not code and self.devices is not None:
            code = self.devices.at(row)
        return RowRefusal(code, 0, code in _HOPELESS_AMONG_PODS)

    def hopeless(self) -> Bools:
        """bool[row]: no eviction lets the pod in (or there is no node). A copy."""
        hopeless = self.local.is_hopeless | ~self._accounts.alive
        for code in _HOPELESS_AMONG_PODS:
            hopeless |= self.codes == code
        for row, refusal in self._overlaid.items():
            hopeless[row] = refusal.is_hopeless
        return hopeless

    def short(self) -> Ints:
        """int64[row], bits as in `NodeLocal.short`. A copy where pods nominated somewhere changed it."""
        if not self._overlaid:
            return self.local.short
        short = self.local.short.copy()
        for row, refusal in self._overlaid.items():
            short[row] = refusal.short
        return short
