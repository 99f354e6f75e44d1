"""Which machines should be there?

Provisioners' decisions: given pods that nothing can hold, which nodes to open, at what price; given nodes, which to
close or to replace by cheaper ones. Pure: facts in, frozen decisions out; the twin launches and drains.

`karpenter/`: Karpenter v1 (NodePools, NodeClaims, consolidation).
"""
