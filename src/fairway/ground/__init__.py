"""What does this path hold, and how is a cluster asked through it?

In: a path: a scenario, a run directory, a dump (`kubectl get … -A -o yaml|json`, one file or a folder of them), the
data folder of `fairway up`, or a kubeconfig. Out: a `Ground`, which gives a `Moment`: a twin that stands there and
can go on, what of the cluster could not be seen, and notes for the reader; and a history as the tables of a run.

Nothing here writes to what is asked: journals are read from a copy, clusters with GET alone. Nothing is decided
here either: the rooms above ask the twin's engines.

Reading order: `ground` (the seam), `opening` (which ground a path is), `reviving` (objects → a twin that goes on),
then each ground: `simulated` (scenarios and runs), `dumps`, `served`, `clusters` over `kubeclient`, both with
`recorded` (what a served cluster keeps of its past).
"""

from fairway.ground.ground import Ground, Moment
from fairway.ground.opening import open_ground

__all__ = ["Ground", "Moment", "open_ground"]
