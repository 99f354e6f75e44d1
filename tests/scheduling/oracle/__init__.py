"""kube-scheduler, said again slowly: plain dicts, one node at a time, nothing cached.

Written from the upstream source (v1.36), plugin by plugin, to disagree with Fairway wherever Fairway is wrong.
It shares no code with Fairway. A `World` is everything the scheduler would see; `decide` is one cycle.
"""

from oracle.cycle import decide
from oracle.world import Decision, World

__all__ = ["Decision", "World", "decide"]
