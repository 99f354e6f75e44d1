"""What does Karpenter do when a cloud takes spot capacity back?

Source: karpenter-provider-aws pkg/controllers/interruption: a spot interruption is cordoned and drained, a rebalance
recommendation is no action.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.kube.objects import meta_of
from fairway.provisioning.karpenter.events import rebalance_recommended, spot_interrupted
from fairway.twin.provisioner import metrics
from fairway.twin.provisioner.cloud import offered_of
from fairway.twin.provisioner.gathering import claim_key

if TYPE_CHECKING:
    from fairway.twin.provisioner.component import Provisioner


def notice(provisioner: Provisioner, node: str) -> bool:
    """The machine will be taken back: its offering counts as unavailable, its claim is deleted. Whether it is ours."""
    claim = provisioner.host.store.get(claim_key(node))
    if claim is None:
        return False
    provisioner.mark_unavailable(offered_of(claim))
    provisioner.tell_both(node, spot_interrupted())
    if "deletionTimestamp" not in meta_of(claim):
        metrics.disrupted(provisioner.tally, provisioner.host.store, claim, metrics.SPOT_INTERRUPTED)
    provisioner.remove(claim_key(node))
    return True


def hint(provisioner: Provisioner, node: str) -> None:
    """Told, not acted on."""
    if provisioner.host.store.get(claim_key(node)) is not None:
        provisioner.tell_both(node, rebalance_recommended())
