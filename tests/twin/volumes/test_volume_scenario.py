"""A database on machines that come and go: Karpenter opens nodes where its volumes are, pods are bound there."""

from __future__ import annotations

from pathlib import Path

from fairway.kube.objects import Key
from fairway.kube.timestamps import MINUTE_US
from fairway.scenario.building import build_twin
from fairway.scenario.loading import load_scenario

ZONE = "topology.kubernetes.io/zone"
SCENARIO = """
apiVersion: fairway.dev/v1alpha1
kind: Scenario
metadata: {name: db}
spec:
  duration: 2h
  cloud: {provider: aws, instanceTypes: ["m5.xlarge"], bootTime: 20s}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  disruption: {consolidateAfter: 30s, budgets: [{nodes: "100%"}]}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: gp3, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: ebs.csi.aws.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 3
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: topology.kubernetes.io/zone
          whenUnsatisfiable: DoNotSchedule
          labelSelector: {matchLabels: {app: db}}
      containers: [{name: c, image: db, resources: {requests: {cpu: "2"}}}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Gi}}}
"""


def test_pods_come_back_to_the_zones_of_their_volumes(tmp_path: Path) -> None:
    file = tmp_path / "db.yaml"
    file.write_text(SCENARIO, encoding="utf-8")
    twin = build_twin(load_scenario(file))
    store = twin.store

    def zones() -> dict[str, str]:
        """Of the volume of each pod, which is that of its node."""
        found = {}
        for pod in store.objects("Pod"):
            name = pod["metadata"]["name"]
            claim = store.require(Key("PersistentVolumeClaim", "default", f"data-{name}"))
            volume = store.require(Key("PersistentVolume", "", claim["spec"]["volumeName"]))
            (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
            (zone,) = term["matchExpressions"][0]["values"]
            node = store.require(Key("Node", "", pod["spec"]["nodeName"]))
            assert (pod["status"]["phase"], node["metadata"]["labels"][ZONE]) == ("Running", zone)
            found[name] = zone
        return found

    twin.run_for(10 * MINUTE_US)
    first = zones()
    assert len(set(first.values())) == len(first) == 3
    volumes = {v["metadata"]["name"] for v in store.objects("PersistentVolume")}
    # All machines go; new ones come to the same three zones, one each, for the same volumes.
    old = [c["metadata"]["name"] for c in store.objects("NodeClaim.karpenter.sh")]
    for name in old:
        store.delete(Key("NodeClaim.karpenter.sh", "", name))
    twin.wake()
    twin.run_for(20 * MINUTE_US)
    assert zones() == first
    assert {v["metadata"]["name"] for v in store.objects("PersistentVolume")} == volumes
    assert not {n["metadata"]["name"] for n in store.objects("Node")} & set(old)
