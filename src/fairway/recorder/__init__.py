"""What happened to whom: a component that watches a twin and keeps tables of outcomes.

    recorder = Recorder()
    twin = Twin(components=[*default_components(), recorder])
    twin.run(...)
    outcome = recorder.outcome()

Reading order: `tables` (the answer's types), `recorder` (what it sees), `pods`, `nodes`, `workloads` (what it
notes), `facts` (the same as arrays), `steps`, `series`, `demand`, `rows` (what follows from it). The same of Kueue:
`queuetables`, `queueledger`, `queuerows`, `queueseries` and `queuelending`; without its objects none of it is touched.
"""

from fairway.cluster.gpurequests import DEFAULT_GPUS, GpuResources
from fairway.recorder.recorder import Recorder
from fairway.recorder.tables import Outcome

__all__ = ["DEFAULT_GPUS", "GpuResources", "Outcome", "Recorder"]
