"""Every cell of kinds that are rarely listed: bare objects, whole ones, and what lies at a boundary.

Source: pkg/printers/internalversion/printers.go (v1.36).
"""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.tables import table
from fairway.apiserver.tables.ages import human_duration, since

NOW_US = 1_785_571_200_000_000  # 2026-08-01T08:00:00Z
CREATED = "2026-08-01T07:59:55Z"


def obj(**rest: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x", "creationTimestamp": CREATED, **rest.pop("metadata", {})}, **rest}


def metric(kind: str, target: dict[str, Any], **source: Any) -> dict[str, Any]:
    return {"type": kind, kind[0].lower() + kind[1:]: {"target": target, **source}}


def current(kind: str, **held: Any) -> dict[str, Any]:
    return {"type": kind, kind[0].lower() + kind[1:]: {"current": held}}


def scaler(*metrics: dict[str, Any], now: tuple[dict[str, Any], ...] = (), **spec: Any) -> dict[str, Any]:
    body = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web"},
        "maxReplicas": 5,
        "metrics": list(metrics),
    }
    return obj(spec={**body, **spec}, status={"currentMetrics": list(now), "currentReplicas": 2})


def targets(text: str, least: str = "<unset>") -> list[Any]:
    return ["x", "Deployment/web", text, least, 5, 2, "5s"]


CPU = metric("Resource", {"averageUtilization": 80}, name="cpu")
HPA = "HorizontalPodAutoscaler.autoscaling"
NODE_INFO = {
    "kernelVersion": "6.1",
    "architecture": "amd64",
    "kubeletVersion": "v1.36.0",
    "osImage": "Linux",
    "containerRuntimeVersion": "containerd://2",
}
NOTHING = ["<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"]

CASES: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("RuntimeClass.node.k8s.io", obj(handler="runsc"), ["x", "runsc", "5s"]),
    ("RuntimeClass.node.k8s.io", obj(), ["x", "", "5s"]),
    (
        "VolumeAttributesClass.storage.k8s.io",
        obj(driverName="ebs.csi.aws.com"),
        ["x", "ebs.csi.aws.com", "5s"],
    ),
    ("VolumeAttributesClass.storage.k8s.io", obj(), ["x", "", "5s"]),
    (HPA, scaler(), targets("<none>")),
    (HPA, scaler(minReplicas=0), targets("<none>", "0")),
    (HPA, scaler(CPU), targets("cpu: <unknown>/80%")),
    (HPA, scaler(CPU, now=(current("Resource", averageUtilization=7),)), targets("cpu: 7%/80%")),
    (HPA, scaler(metric("Resource", {}, name="cpu")), targets("cpu: <unknown>/<auto>")),
    (
        HPA,
        scaler(
            metric("ContainerResource", {"averageValue": "1Gi"}, name="memory"),
            now=(current("ContainerResource", averageValue="2Gi"),),
        ),
        targets("memory: 2Gi/1Gi"),
    ),
    (HPA, scaler(metric("Pods", {"averageValue": "10"})), targets("<unknown>/10")),
    (
        HPA,
        scaler(metric("Pods", {"averageValue": "10"}), now=(current("Pods", averageValue="3"),)),
        targets("3/10"),
    ),
    (
        HPA,
        scaler(metric("External", {"averageValue": "10"}), now=(current("External", averageValue="3"),)),
        targets("3/10 (avg)"),
    ),
    (HPA, scaler(metric("Object", {"value": "10"}), now=(current("Object", value="3"),)), targets("3/10")),
    (HPA, scaler(metric("Object", {"value": "10"})), targets("<unknown>/10")),
    (HPA, scaler({"type": "Other"}), targets("<unknown type>")),
    (HPA, scaler(CPU, CPU), targets("cpu: <unknown>/80%, cpu: <unknown>/80%")),
    (HPA, scaler(CPU, CPU, CPU, CPU), targets("cpu: <unknown>/80%, cpu: <unknown>/80% + 2 more...")),
    ("ComponentStatus", obj(), ["x", "Unknown", "", ""]),
    (
        "ComponentStatus",
        obj(conditions=[{"type": "Other"}, {"type": "Healthy", "status": "True", "message": "ok"}]),
        ["x", "Healthy", "ok", ""],
    ),
    (
        "ComponentStatus",
        obj(conditions=[{"type": "Healthy", "status": "False", "error": "no"}]),
        ["x", "Unhealthy", "", "no"],
    ),
    ("APIService.apiregistration.k8s.io", obj(), ["x", "Local", "Unknown", "5s"]),
    (
        "APIService.apiregistration.k8s.io",
        obj(
            spec={"service": {"namespace": "n", "name": "s"}},
            status={"conditions": [{"type": "Available", "status": "True", "reason": "r"}]},
        ),
        ["x", "n/s", "True", "5s"],
    ),
    (
        "APIService.apiregistration.k8s.io",
        obj(status={"conditions": [{"type": "Available", "status": "False", "reason": "Missing"}]}),
        ["x", "Local", "False (Missing)", "5s"],
    ),
    ("ResourceSlice.resource.k8s.io", obj(), ["x", "", "", "", "5s"]),
    (
        "ResourceSlice.resource.k8s.io",
        obj(spec={"nodeName": "n", "driver": "d", "pool": {"name": "p"}}),
        ["x", "n", "d", "p", "5s"],
    ),
    ("ResourceClaim.resource.k8s.io", obj(), ["x", "pending", "5s"]),
    ("ResourceClaim.resource.k8s.io", obj(metadata={"deletionTimestamp": CREATED}), ["x", "deleted", "5s"]),
    ("ResourceClaim.resource.k8s.io", obj(status={"allocation": {}}), ["x", "allocated", "5s"]),
    (
        "ResourceClaim.resource.k8s.io",
        obj(status={"allocation": {}, "reservedFor": [{}]}, metadata={"deletionTimestamp": CREATED}),
        ["x", "deleted,allocated,reserved", "5s"],
    ),
    ("Node", obj(), ["x", "Unknown", "<none>", "5s", "", *NOTHING]),
    (
        "Node",
        obj(
            metadata={
                "labels": {
                    "node-role.kubernetes.io/b": "",
                    "kubernetes.io/role": "a",
                    "node-role.kubernetes.io/": "",
                }
            },
            spec={"unschedulable": True},
            status={
                "nodeInfo": NODE_INFO,
                "conditions": [{"type": "Ready", "status": "False"}],
                "addresses": [{"type": "InternalIP", "address": "1"}, {"type": "ExternalIP", "address": "2"}],
            },
        ),
        [
            "x",
            "NotReady,SchedulingDisabled",
            "a,b",
            "5s",
            "v1.36.0",
            "1",
            "2",
            "Linux",
            "6.1 (amd64)",
            "containerd://2",
        ],
    ),
    ("ConfigMap", obj(data={"a": ""}, binaryData={"b": "", "c": ""}), ["x", 3, "5s"]),
    ("Secret", obj(type="Opaque", data={"a": ""}), ["x", "Opaque", 1, "5s"]),
    (
        "ResourceQuota",
        obj(status={"hard": {"cpu": "2000m", "limits.cpu": "4", "pods": "x"}, "used": {"cpu": "1"}}),
        ["x", "cpu: 1/2, pods: 0/x", "limits.cpu: 0/4", "5s"],
    ),
    ("PodDisruptionBudget.policy", obj(spec={"minAvailable": 0}), ["x", "0", "N/A", 0, "5s"]),
    ("PodDisruptionBudget.policy", obj(), ["x", "N/A", "N/A", 0, "5s"]),
    (HPA, obj(), ["x", "/", "<none>", "<unset>", 0, 0, "5s"]),
    ("Scale.autoscaling", obj(), ["x", 0, 0, "5s"]),
    ("Scale.autoscaling", obj(spec={"replicas": 3}, status={"replicas": 2}), ["x", 3, 2, "5s"]),
    (
        "PodDisruptionBudget.policy",
        obj(spec={"maxUnavailable": "5%"}, status={"disruptionsAllowed": 2}),
        ["x", "N/A", "5%", 2, "5s"],
    ),
    ("PriorityClass.scheduling.k8s.io", obj(), ["x", 0, False, "5s", ""]),
    (
        "PriorityClass.scheduling.k8s.io",
        obj(value=7, globalDefault=True, preemptionPolicy="Never"),
        ["x", 7, True, "5s", "Never"],
    ),
    (
        "CertificateSigningRequest.certificates.k8s.io",
        obj(spec={"signerName": "s", "username": "u"}),
        ["x", "5s", "s", "u", "<none>", "Pending"],
    ),
    (
        "CertificateSigningRequest.certificates.k8s.io",
        obj(
            spec={"expirationSeconds": 3600},
            status={"conditions": [{"type": "Approved"}], "certificate": "x"},
        ),
        ["x", "5s", "<none>", "", "60m", "Approved,Issued"],
    ),
    (
        "CertificateSigningRequest.certificates.k8s.io",
        obj(status={"conditions": [{"type": "Approved"}, {"type": "Denied"}, {"type": "Failed"}]}),
        ["x", "5s", "<none>", "", "<none>", "Denied,Failed"],
    ),
    (
        "Service",
        obj(spec={"type": "ClusterIP"}),
        ["x", "ClusterIP", "<none>", "<none>", "<none>", "5s", "<none>"],
    ),
    (
        "Service",
        obj(
            spec={
                "type": "NodePort",
                "clusterIP": "10.0.0.1",
                "externalIPs": ["1", "2"],
                "ports": [{"port": 80, "nodePort": 30000}, {"port": 53, "protocol": "UDP"}],
                "selector": {"b": "2", "a": "1"},
            }
        ),
        ["x", "NodePort", "10.0.0.1", "1,2", "80:30000/TCP,53/UDP", "5s", "a=1,b=2"],
    ),
    (
        "Service",
        obj(spec={"type": "LoadBalancer"}),
        ["x", "LoadBalancer", "<none>", "<pending>", "<none>", "5s", "<none>"],
    ),
    (
        "Service",
        obj(
            spec={"type": "LoadBalancer", "externalIPs": ["9"]},
            status={"loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "1"}, {}, {"ip": "1"}]}},
        ),
        ["x", "LoadBalancer", "<none>", "1,h,9", "<none>", "5s", "<none>"],
    ),
    (
        "Service",
        obj(spec={"type": "LoadBalancer", "externalIPs": ["9"]}),
        ["x", "LoadBalancer", "<none>", "9", "<none>", "5s", "<none>"],
    ),
    (
        "Service",
        obj(spec={"type": "ExternalName", "externalName": "e.org"}),
        ["x", "ExternalName", "<none>", "e.org", "<none>", "5s", "<none>"],
    ),
    ("Endpoints", obj(), ["x", "<none>", "5s"]),
    ("Endpoints", obj(subsets=[{"addresses": [{"ip": "1"}]}]), ["x", "1", "5s"]),
    (
        "Endpoints",
        obj(subsets=[{"addresses": [{"ip": "1"}, {"ip": "::2"}], "ports": [{"port": 8}]}]),
        ["x", "1:8,[::2]:8", "5s"],
    ),
    (
        "Endpoints",
        obj(subsets=[{"addresses": [{"ip": str(i)} for i in range(5)], "ports": [{"port": 8}]}]),
        ["x", "0:8,1:8,2:8 + 2 more...", "5s"],
    ),
    ("EndpointSlice.discovery.k8s.io", obj(addressType="IPv4"), ["x", "IPv4", "<unset>", "<unset>", "5s"]),
    (
        "EndpointSlice.discovery.k8s.io",
        obj(
            addressType="IPv4",
            ports=[{"port": 8}, {"name": "n"}, {}],
            endpoints=[{"addresses": ["1"]}, {"addresses": ["2", "3"]}, {}],
        ),
        ["x", "IPv4", "8,n,*", "1,2,3", "5s"],
    ),
    ("Ingress.networking.k8s.io", obj(spec={}), ["x", "<none>", "*", "", "80", "5s"]),
    (
        "Ingress.networking.k8s.io",
        obj(spec={"ingressClassName": "c", "tls": [{}], "rules": [{"host": h} for h in "abcd"] + [{}]}),
        ["x", "c", "a,b,c + 2 more...", "", "80, 443", "5s"],
    ),
    (
        "Ingress.networking.k8s.io",
        obj(spec={"rules": [{"host": h} for h in "abc"]}),
        ["x", "<none>", "a,b,c", "", "80", "5s"],
    ),
    ("IngressClass.networking.k8s.io", obj(spec={"controller": "c"}), ["x", "c", "<none>", "5s"]),
    (
        "IngressClass.networking.k8s.io",
        obj(
            metadata={"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
            spec={"parameters": {"apiGroup": "g", "kind": "K", "name": "n"}},
        ),
        ["x (default)", "", "K.g/n", "5s"],
    ),
    (
        "IngressClass.networking.k8s.io",
        obj(spec={"parameters": {"kind": "K", "name": "n"}}),
        ["x", "", "K/n", "5s"],
    ),
    ("NetworkPolicy.networking.k8s.io", obj(spec={}), ["x", "<none>", "5s"]),
    (
        "NetworkPolicy.networking.k8s.io",
        obj(spec={"podSelector": {"matchLabels": {"a": "b"}}}),
        ["x", "a=b", "5s"],
    ),
    ("ServiceCIDR.networking.k8s.io", obj(spec={"cidrs": ["a", "b"]}), ["x", "a,b", "5s"]),
    ("IPAddress.networking.k8s.io", obj(), ["x", "<none>"]),
    (
        "IPAddress.networking.k8s.io",
        obj(spec={"parentRef": {"group": "g", "resource": "R", "namespace": "n", "name": "N"}}),
        ["x", "r.g/n/N"],
    ),
    (
        "IPAddress.networking.k8s.io",
        obj(spec={"parentRef": {"resource": "services", "name": "n"}}),
        ["x", "services/n"],
    ),
    (
        "MutatingAdmissionPolicy.admissionregistration.k8s.io",
        obj(spec={"mutations": [{}]}),
        ["x", 1, "<unset>", "5s"],
    ),
    (
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
        obj(spec={"validations": [{}, {}], "paramKind": {"apiVersion": "v1", "kind": "K"}}),
        ["x", 2, "v1/K", "5s"],
    ),
    (
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        obj(spec={"policyName": "p"}),
        ["x", "p", "<unset>", "5s"],
    ),
    (
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        obj(spec={"policyName": "p", "paramRef": {"name": "n"}}),
        ["x", "p", "*/n", "5s"],
    ),
    (
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        obj(spec={"policyName": "p", "paramRef": {"name": "n", "namespace": "s"}}),
        ["x", "p", "s/n", "5s"],
    ),
    (
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        obj(spec={"policyName": "p", "paramRef": {"selector": {"matchLabels": {"a": "b"}}}}),
        ["x", "p", "a=b", "5s"],
    ),
    ("MutatingWebhookConfiguration.admissionregistration.k8s.io", obj(webhooks=[{}, {}]), ["x", 2, "5s"]),
    ("FlowSchema.flowcontrol.apiserver.k8s.io", obj(spec={}), ["x", "", 0, "<none>", "5s", "?"]),
    (
        "FlowSchema.flowcontrol.apiserver.k8s.io",
        obj(
            spec={
                "priorityLevelConfiguration": {"name": "p"},
                "matchingPrecedence": 9,
                "distinguisherMethod": {"type": "ByUser"},
            },
            status={"conditions": [{"type": "Dangling", "status": "False"}]},
        ),
        ["x", "p", 9, "ByUser", "5s", "False"],
    ),
    (
        "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
        obj(spec={"type": "Exempt"}),
        ["x", "Exempt", "<none>", "<none>", "<none>", "<none>", "5s"],
    ),
    (
        "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
        obj(
            spec={
                "type": "Limited",
                "limited": {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}},
            }
        ),
        ["x", "Limited", 5, "<none>", "<none>", "<none>", "5s"],
    ),
    (
        "PriorityLevelConfiguration.flowcontrol.apiserver.k8s.io",
        obj(
            spec={
                "type": "Limited",
                "limited": {
                    "limitResponse": {"queuing": {"queues": 1, "handSize": 2, "queueLengthLimit": 3}}
                },
            }
        ),
        ["x", "Limited", 0, 1, 2, 3, "5s"],
    ),
    ("CSIStorageCapacity.storage.k8s.io", obj(storageClassName="c"), ["x", "c", "<unset>"]),
    ("CSIStorageCapacity.storage.k8s.io", obj(capacity="1Gi"), ["x", "", "1Gi"]),
    ("CSIDriver.storage.k8s.io", obj(spec={}), ["x", True, False, False, "<unset>", False, "<none>", "5s"]),
    (
        "CSIDriver.storage.k8s.io",
        obj(
            spec={
                "attachRequired": False,
                "podInfoOnMount": True,
                "storageCapacity": True,
                "tokenRequests": [{"audience": "a"}, {}],
                "requiresRepublish": True,
                "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            }
        ),
        ["x", False, True, True, "a,", True, "Persistent,Ephemeral", "5s"],
    ),
    ("CSINode.storage.k8s.io", obj(spec={"drivers": [{}, {}]}), ["x", 2, "5s"]),
    ("VolumeAttachment.storage.k8s.io", obj(spec={}), ["x", "", "", "", False, "5s"]),
    (
        "VolumeAttachment.storage.k8s.io",
        obj(
            spec={"attacher": "a", "source": {"persistentVolumeName": "v"}, "nodeName": "n"},
            status={"attached": True},
        ),
        ["x", "a", "v", "n", True, "5s"],
    ),
    (
        "StorageClass.storage.k8s.io",
        obj(metadata={"annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}}),
        ["x (default)", "", "Delete", "Immediate", False, "5s"],
    ),
    (
        "PersistentVolume",
        obj(
            spec={
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "claimRef": {"namespace": "n", "name": "c"},
                "volumeMode": "Block",
            },
            metadata={
                "deletionTimestamp": CREATED,
                "annotations": {"volume.beta.kubernetes.io/storage-class": "old"},
            },
        ),
        ["x", "1Gi", "RWO,RWX", "", "Terminating", "n/c", "old", "<unset>", "", "5s", "Block"],
    ),
    (
        "PersistentVolumeClaim",
        obj(
            spec={"volumeName": "v", "storageClassName": "s"},
            status={"phase": "Bound", "accessModes": ["ReadWriteOncePod"], "capacity": {"storage": "1Gi"}},
        ),
        ["x", "Bound", "v", "1Gi", "RWOP", "s", "<unset>", "5s", "<unset>"],
    ),
    (
        "PersistentVolumeClaim",
        obj(
            spec={},
            status={"phase": "Pending", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}},
        ),
        ["x", "Pending", "", "", "", "", "<unset>", "5s", "<unset>"],
    ),
    (
        "ReplicationController",
        obj(
            spec={"selector": {"a": "b"}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
        ),
        ["x", 1, 0, 0, "5s", "c", "i", "a=b"],
    ),
    (
        "PodTemplate",
        obj(
            template={
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d"}]},
            }
        ),
        ["x", "c,d", "i,", "a=b"],
    ),
    ("ControllerRevision.apps", obj(revision=3), ["x", "<none>", 3, "5s"]),
    (
        "ControllerRevision.apps",
        obj(
            metadata={
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "controller": True}
                ]
            }
        ),
        ["x", "daemonset.apps/d", 0, "5s"],
    ),
    (
        "Deployment.apps",
        obj(
            spec={"replicas": 0, "selector": {"matchLabels": {"a": "b"}}},
            status={"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 3},
        ),
        ["x", "1/0", 2, 3, "5s", "", "", "a=b"],
    ),
    (
        "DaemonSet.apps",
        obj(
            spec={"template": {"spec": {"nodeSelector": {"a": "b"}}}},
            status={
                "desiredNumberScheduled": 1,
                "currentNumberScheduled": 2,
                "numberReady": 3,
                "updatedNumberScheduled": 4,
                "numberAvailable": 5,
            },
        ),
        ["x", 1, 2, 3, 4, 5, "a=b", "5s", "", "", "<none>"],
    ),
    ("StatefulSet.apps", obj(spec={"replicas": 3}, status={"readyReplicas": 2}), ["x", "2/3", "5s", "", ""]),
    ("Job.batch", obj(spec={}), ["x", "Running", "0/1", "", "5s", "", "", "<none>"]),
    ("Job.batch", obj(spec={"parallelism": 2}), ["x", "Running", "0/1 of 2", "", "5s", "", "", "<none>"]),
    ("Job.batch", obj(spec={"parallelism": 1}), ["x", "Running", "0/1", "", "5s", "", "", "<none>"]),
    (
        "Job.batch",
        obj(
            spec={"completions": 4},
            status={
                "succeeded": 3,
                "startTime": "2026-08-01T07:59:58Z",
                "completionTime": "2026-08-01T07:59:59Z",
                "conditions": [{"type": "Suspended", "status": "True"}],
            },
        ),
        ["x", "Suspended", "3/4", "1s", "5s", "", "", "<none>"],
    ),
    (
        "Job.batch",
        obj(
            spec={},
            metadata={"deletionTimestamp": CREATED},
            status={
                "startTime": "2026-08-01T07:59:58Z",
                "conditions": [{"type": "Suspended", "status": "True"}],
            },
        ),
        ["x", "Terminating", "0/1", "2s", "5s", "", "", "<none>"],
    ),
    (
        "Job.batch",
        obj(
            spec={},
            metadata={"deletionTimestamp": CREATED},
            status={"startTime": "bad", "conditions": [{"type": "Failed", "status": "True"}]},
        ),
        ["x", "Failed", "0/1", "<invalid>", "5s", "", "", "<none>"],
    ),
    (
        "CronJob.batch",
        obj(
            spec={"schedule": "s", "timeZone": "z", "suspend": False},
            status={"active": [{}], "lastScheduleTime": CREATED},
        ),
        ["x", "s", "z", "False", 1, "5s", "5s", "", "", "<none>"],
    ),
    ("CronJob.batch", obj(spec={}), ["x", "", "<none>", "<unset>", 0, "<none>", "5s", "", "", "<none>"]),
    (
        "Event",
        obj(
            type="Normal",
            reason="R",
            message=" m\n",
            count=3,
            firstTimestamp=CREATED,
            lastTimestamp="2026-08-01T07:59:58Z",
            involvedObject={"kind": "Pod", "name": "p", "fieldPath": "f"},
            source={"component": "c", "host": "h"},
        ),
        ["2s", "Normal", "R", "pod/p", "f", "c, h", "m", "5s", 3, "x"],
    ),
    (
        "Event",
        obj(
            eventTime=CREATED,
            series={"count": 4, "lastObservedTime": "2026-08-01T07:59:59Z"},
            reportingComponent="rc",
            involvedObject={"kind": "Pod"},
        ),
        ["1s", "", "", "pod", "", "rc", "", "5s", 4, "x"],
    ),
    ("Event", obj(), ["<unknown>", "", "", "", "", "", "", "<unknown>", 1, "x"]),
    (
        "RoleBinding.rbac.authorization.k8s.io",
        obj(
            roleRef={"kind": "Role", "name": "r"},
            subjects=[
                {"kind": "User", "name": "u"},
                {"kind": "Group", "name": "g"},
                {"kind": "User", "name": "v"},
                {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
            ],
        ),
        ["x", "Role/r", "5s", "u, v", "g", "n/s"],
    ),
]


@pytest.mark.parametrize(("gk", "one", "want"), CASES)
def test_cells(gk: str, one: dict[str, Any], want: list[Any]) -> None:
    made = table(gk, [one], NOW_US)
    assert made["rows"][0]["cells"] == want
    assert len(want) == len(made["columnDefinitions"])


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (599, "9m59s"),
        (600, "10m"),
        (601, "10m"),
        (179 * 60 + 59, "179m"),
        (180 * 60, "3h"),
        (181 * 60, "3h1m"),
        (8 * 3600 - 1, "7h59m"),
        (8 * 3600, "8h"),
        (48 * 3600 - 1, "47h"),
        (48 * 3600, "2d"),
        (49 * 3600, "2d1h"),
        (8 * 86400 - 1, "7d23h"),
        (8 * 86400, "8d"),
        (730 * 86400 - 1, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400 - 1, "7y364d"),
        (8 * 365 * 86400, "8y"),
    ],
)
def test_how_long_ago(seconds: float, want: str) -> None:
    assert human_duration(round(seconds * 1_000_000)) == want


def test_no_time_and_no_such_time() -> None:
    assert (since(None, NOW_US), since("nonsense", NOW_US)) == ("<unknown>", "<invalid>")
