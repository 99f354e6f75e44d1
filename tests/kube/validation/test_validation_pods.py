"""What is wrong with a pod: containers, resources, probes, volumes, and the pod as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from validationworld import asking, container, pod, template, told

GPU = "nvidia.com/gpu"
C = "spec.containers[0]"
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)

Case = tuple[dict[str, Any], list[str]]

FINE: dict[str, dict[str, Any]] = {
    "the least": pod(),
    "everything asked for in full": pod(
        asking(
            requests={"cpu": "500m", "memory": "1Gi", GPU: 2}, limits={"cpu": 2, "memory": "2Gi", GPU: "2"}
        )
    ),
    "a limit without a request": pod(asking(limits={GPU: 1})),
    "a sidecar with a probe": pod(
        initContainers=[
            {
                "name": "s",
                "image": "i",
                "restartPolicy": "Always",
                "readinessProbe": {"tcpSocket": {"port": 80}},
            }
        ]
    ),
    "hugepages beside memory": pod(asking(limits={"hugepages-2Mi": "100Mi", "memory": "1Gi"})),
    "generateName": {**pod(), "metadata": {"generateName": "p-"}},
    "null fields": pod(container(ports=None, resources=None), tolerations=None, affinity=None),
    "a GPU in thousandths": pod(asking(limits={"fairway.dev/gpu-milli": 500})),
}


@pytest.mark.parametrize("obj", FINE.values(), ids=FINE.keys())
def test_nothing_is_wrong(obj: dict[str, Any]) -> None:
    assert told(obj) == []


RESOURCES: dict[str, Case] = {
    "half a GPU": (
        pod(asking(limits={GPU: "500m"})),
        [
            f'{C}.resources.limits[{GPU}]: Invalid value: "500m": must be an integer',
            f'{C}.resources.requests[{GPU}]: Invalid value: "500m": must be an integer',
        ],
    ),
    "half a GPU as a float": (
        pod(asking(limits={GPU: 0.5}, requests={GPU: 0.5})),
        [
            f'{C}.resources.limits[{GPU}]: Invalid value: "500m": must be an integer',
            f'{C}.resources.requests[{GPU}]: Invalid value: "500m": must be an integer',
        ],
    ),
    "a GPU request that differs from its limit": (
        pod(asking(requests={GPU: 1}, limits={GPU: 2})),
        [f'{C}.resources.requests: Invalid value: "1": must be equal to {GPU} limit of 2'],
    ),
    "a GPU request without a limit": (
        pod(asking(requests={GPU: 1})),
        [f"{C}.resources.limits: Required value: Limit must be set for non overcommitable resources"],
    ),
    "a negative GPU": (
        pod(asking(limits={GPU: -1}, requests={GPU: -1})),
        [
            f'{C}.resources.limits[{GPU}]: Invalid value: "-1": must be greater than or equal to 0',
            f'{C}.resources.requests[{GPU}]: Invalid value: "-1": must be greater than or equal to 0',
        ],
    ),
    "a request above its limit": (
        pod(asking(requests={"cpu": "2"}, limits={"cpu": "1500m"})),
        [f'{C}.resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1500m'],
    ),
    "a resource without a domain": (
        pod(asking(limits={"gpu": 1}, requests={"gpu": 1})),
        [
            f'{C}.resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified',
            f'{C}.resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers',
            f'{C}.resources.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified',
            f'{C}.resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers',
        ],
    ),
    "pods as a resource of a container": (
        pod(asking(requests={"pods": 1})),
        [f'{C}.resources.requests[pods]: Invalid value: "pods": must be a standard resource for containers'],
    ),
    "a quota name as a resource": (
        pod(asking(limits={f"requests.{GPU}": 1})),
        [
            f'{C}.resources.limits[requests.{GPU}]: Invalid value: "requests.{GPU}": '
            "doesn't follow extended resource name standard",
            f'{C}.resources.requests[requests.{GPU}]: Invalid value: "requests.{GPU}": '
            "doesn't follow extended resource name standard",
        ],
    ),
    "hugepages that are no multiple of the page": (
        pod(asking(limits={"hugepages-2Mi": "3Mi", "memory": "1Gi"}, requests={"hugepages-2Mi": "3Mi"})),
        [
            f'{C}.resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of '
            "hugepages-2Mi",
            f'{C}.resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of '
            "hugepages-2Mi",
        ],
    ),
    "hugepages alone": (
        pod(asking(limits={"hugepages-2Mi": "2Mi"})),
        [f"{C}.resources: Forbidden: HugePages require cpu or memory"],
    ),
    "hugepages requested below their limit": (
        pod(asking(limits={"hugepages-2Mi": "4Mi", "cpu": 1}, requests={"hugepages-2Mi": "2Mi"})),
        [f'{C}.resources.requests: Invalid value: "2Mi": must be equal to hugepages-2Mi limit of 4Mi'],
    ),
    "a claim nobody declared": (
        pod(asking(claims=[{"name": "gpu"}])),
        [
            f'{C}.resources.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims '
            "which is empty"
        ],
    ),
    "negative overhead": (
        pod(overhead={"cpu": "-1"}),
        [
            'spec.overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
        ],
    ),
    "a GPU at pod level": (
        pod(resources={"limits": {GPU: 1}}),
        [
            'spec.resources.limits[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu": '
            'supported values: "cpu", "hugepages-", "memory"',
        ],
    ),
    "pod-level requests below what the containers ask": (
        pod(asking(requests={"cpu": "2"}), resources={"requests": {"cpu": "1"}}),
        [
            'spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate '
            "container requests of 2"
        ],
    ),
    "a container limit above the pod-level limit": (
        pod(asking(limits={"cpu": "4"}, requests={"cpu": 1}), resources={"limits": {"cpu": "2"}}),
        [
            'spec.resources.containers[0][cpu].limits: Invalid value: "4": must be less '
            "than or equal to pod limits of 2",
        ],
    ),
    "claims at pod level": (
        pod(resources={"claims": [], "requests": {"cpu": 1}}),
        ["spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level"],
    ),
}

CONTAINERS: dict[str, Case] = {
    "no containers": (pod(containers=[]), ["spec.containers: Required value"]),
    "no spec": ({**pod(), "spec": None}, ["spec.containers: Required value"]),
    "no name": (pod({"image": "i"}), [f"{C}.name: Required value"]),
    "no image": (pod({"name": "c"}), [f"{C}.image: Required value"]),
    "an image with blanks": (
        pod(container(image="cuda:12 ")),
        [f'{C}.image: Invalid value: "cuda:12 ": must not have leading or trailing whitespace'],
    ),
    "a bad name": (pod(container(name="C_1")), [f'{C}.name: Invalid value: "C_1": {LABEL_TEXT}']),
    "a name with dots": (
        pod(container(name="a.b")),
        [f'{C}.name: Invalid value: "a.b": must not contain dots'],
    ),
    "the same name twice": (
        pod(container(), container()),
        ['spec.containers[1].name: Duplicate value: "c"'],
    ),
    "an init container with the name of another": (
        pod(initContainers=[container()]),
        ['spec.initContainers[0].name: Duplicate value: "c"'],
    ),
    "an unknown pull policy": (
        pod(container(imagePullPolicy="Sometimes")),
        [
            f'{C}.imagePullPolicy: Unsupported value: "Sometimes": '
            'supported values: "Always", "IfNotPresent", "Never"'
        ],
    ),
    "a probe on a plain init container": (
        pod(initContainers=[container(name="i", livenessProbe={"exec": {"command": ["true"]}})]),
        [
            "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
            "restartPolicy=Always"
        ],
    ),
    "a restart policy nobody knows": (
        pod(initContainers=[container(name="i", restartPolicy="Maybe")]),
        [
            'spec.initContainers[0].restartPolicy: Unsupported value: "Maybe": '
            'supported values: "Always", "Never", "OnFailure"'
        ],
    ),
    "restart rules without a policy": (
        pod(
            container(
                restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
            )
        ),
        [f"{C}.restartPolicy: Required value: must specify restartPolicy when restart rules are used"],
    ),
    "a port out of range": (
        pod(container(ports=[{"containerPort": 70000}])),
        [f"{C}.ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
    ),
    "a port without a number": (
        pod(container(ports=[{"name": "http"}])),
        [f"{C}.ports[0].containerPort: Required value"],
    ),
    "a lower-case protocol": (
        pod(container(ports=[{"containerPort": 80, "protocol": "tcp"}])),
        [f'{C}.ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'],
    ),
    "a port name twice": (
        pod(container(ports=[{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}])),
        [f'{C}.ports[1].name: Duplicate value: "a"'],
    ),
    "a port name too long": (
        pod(container(ports=[{"containerPort": 80, "name": "a-very-long-name"}])),
        [f'{C}.ports[0].name: Invalid value: "a-very-long-name": must be no more than 15 characters'],
    ),
    "a host port twice": (
        pod(
            container(ports=[{"containerPort": 80, "hostPort": 80}]),
            container(name="d", ports=[{"containerPort": 81, "hostPort": 80}]),
        ),
        ['spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//80"'],
    ),
    "host network with another host port": (
        pod(container(ports=[{"containerPort": 80, "hostPort": 81}]), hostNetwork=True),
        [f"{C}.ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` is true"],
    ),
    "a variable without a name": (pod(container(env=[{"value": "1"}])), [f"{C}.env[0].name: Required value"]),
    "a variable with an equals sign": (
        pod(container(env=[{"name": "A=B"}])),
        [
            f'{C}.env[0].name: Invalid value: "A=B": a valid environment variable name must consist only of '
            "printable ASCII characters other than '='"
        ],
    ),
    "a variable with a value and a source": (
        pod(
            container(
                env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
            )
        ),
        [f'{C}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
    ),
    "a variable from nowhere": (
        pod(container(env=[{"name": "A", "valueFrom": {}}])),
        [
            f'{C}.env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
            "`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        ],
    ),
    "a field the downward API does not know": (
        pod(container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.schedulerName"}}}])),
        [
            "spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "
            '"spec.schedulerName": supported values: "metadata.name", '
            '"metadata.namespace", "metadata.uid", "spec.nodeName", '
            '"spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", '
            '"status.podIPs"',
        ],
    ),
    "a label by key is fine, a phase is not supported": (
        pod(
            container(
                env=[
                    {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
                    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}},
                ]
            )
        ),
        [
            f'{C}.env[1].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: '
            '"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", '
            '"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"'
        ],
    ),
    "a resource field that does not exist": (
        pod(container(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.gpu"}}}])),
        [
            f'{C}.env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gpu": supported values: '
            '"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", '
            '"requests.ephemeral-storage", "requests.memory"'
        ],
    ),
    "a divisor that does not fit": (
        pod(
            container(
                env=[
                    {
                        "name": "A",
                        "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "10m"}},
                    }
                ]
            )
        ),
        [
            f'{C}.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor\'s values '
            "1m and 1 are supported with the cpu resource"
        ],
    ),
    "envFrom nothing": (
        pod(container(envFrom=[{"prefix": "A_"}])),
        [f'{C}.envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`'],
    ),
    "Allow privilege escalation off but privileged": (
        pod(container(securityContext={"allowPrivilegeEscalation": False, "privileged": True})),
        [
            'spec.containers[0].securityContext: Invalid value: {"Capabilities":null,'
            '"Privileged":true,"SELinuxOptions":null,"WindowsOptions":null,'
            '"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,'
            '"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,'
            '"ProcMount":null,"SeccompProfile":null,"AppArmorProfile":null}: cannot set '
            "`allowPrivilegeEscalation` to false and `privileged` to true",
        ],
    ),
    "a user out of range": (
        pod(container(securityContext={"runAsUser": -1})),
        [f"{C}.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"],
    ),
    "a seccomp profile without its file": (
        pod(securityContext={"seccompProfile": {"type": "Localhost"}}),
        [
            "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type "
            "is Localhost"
        ],
    ),
}

PROBES: dict[str, Case] = {
    "no handler": (
        pod(container(livenessProbe={"periodSeconds": 1})),
        [f"{C}.livenessProbe: Required value: must specify a handler type"],
    ),
    "two handlers": (
        pod(container(livenessProbe={"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}})),
        [f"{C}.livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
    ),
    "a command that is empty": (
        pod(container(startupProbe={"exec": {}})),
        [f"{C}.startupProbe.exec.command: Required value"],
    ),
    "a negative delay": (
        pod(container(readinessProbe={"tcpSocket": {"port": 1}, "initialDelaySeconds": -1})),
        [f"{C}.readinessProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "liveness after two successes": (
        pod(container(livenessProbe={"tcpSocket": {"port": 1}, "successThreshold": 2})),
        [f"{C}.livenessProbe.successThreshold: Invalid value: 2: must be 1"],
    ),
    "readiness with a grace period": (
        pod(container(readinessProbe={"tcpSocket": {"port": 1}, "terminationGracePeriodSeconds": 3})),
        [
            f"{C}.readinessProbe.terminationGracePeriodSeconds: Invalid value: 3: must not be set for "
            "readinessProbes"
        ],
    ),
    "no port": (
        pod(container(livenessProbe={"httpGet": {"path": "/"}})),
        [f"{C}.livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive"],
    ),
    "a port name without letters": (
        pod(container(livenessProbe={"httpGet": {"port": "80"}})),
        [f'{C}.livenessProbe.httpGet.port: Invalid value: "80": must contain at least one letter (a-z)'],
    ),
    "a lower-case scheme": (
        pod(container(livenessProbe={"httpGet": {"port": 80, "scheme": "https"}})),
        [f'{C}.livenessProbe.httpGet.scheme: Unsupported value: "https": supported values: "HTTP", "HTTPS"'],
    ),
    "a hook that sleeps longer than the pod may take to end": (
        pod(container(lifecycle={"preStop": {"sleep": {"seconds": 60}}})),
        [
            f"{C}.lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than "
            "terminationGracePeriodSeconds (30)"
        ],
    ),
}

VOLUMES: dict[str, Case] = {
    "a mount of no volume": (
        pod(container(volumeMounts=[{"name": "data", "mountPath": "/data"}])),
        [f'{C}.volumeMounts[0].name: Not found: "data"'],
    ),
    "two mounts in one place": (
        pod(
            container(volumeMounts=[{"name": "d", "mountPath": "/d"}, {"name": "e", "mountPath": "/d"}]),
            volumes=[{"name": "d", "emptyDir": {}}, {"name": "e"}],
        ),
        [f'{C}.volumeMounts[1].mountPath: Invalid value: "/d": must be unique'],
    ),
    "a mount without a path": (
        pod(container(volumeMounts=[{"name": "d"}]), volumes=[{"name": "d"}]),
        [f"{C}.volumeMounts[0].mountPath: Required value"],
    ),
    "a sub-path out of the volume": (
        pod(
            container(volumeMounts=[{"name": "d", "mountPath": "/d", "subPath": "../x"}]),
            volumes=[{"name": "d"}],
        ),
        [
            "spec.containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'",
        ],
    ),
    "a volume name twice": (
        pod(volumes=[{"name": "d"}, {"name": "d"}]),
        ['spec.volumes[1].name: Duplicate value: "d"'],
    ),
    "two sources": (
        pod(volumes=[{"name": "d", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
        ["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
    ),
    "a claim without a name": (
        pod(volumes=[{"name": "d", "persistentVolumeClaim": {}}]),
        ["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
    ),
    "a mode that is no mode": (
        pod(volumes=[{"name": "d", "configMap": {"name": "m", "defaultMode": 1000}}]),
        [
            "spec.volumes[0].configMap.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 "
            "(octal), both inclusive"
        ],
    ),
    "a host path of an unknown type": (
        pod(volumes=[{"name": "d", "hostPath": {"path": "/x", "type": "Dir"}}]),
        [
            'spec.volumes[0].hostPath.type: Unsupported value: "Dir": supported values: "", "BlockDevice", '
            '"CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"'
        ],
    ),
    "a negative size limit": (
        pod(volumes=[{"name": "d", "emptyDir": {"sizeLimit": "-1Gi"}}]),
        ["spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"],
    ),
    "a resource claim from two places": (
        pod(resourceClaims=[{"name": "g"}]),
        [
            'spec.resourceClaims[0]: Invalid value: {"Name":"g","ResourceClaimName":null,'
            '"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, '
            "`resourceClaimTemplateName`"
        ],
    ),
}

PODS: dict[str, Case] = {
    "an unknown restart policy": (
        pod(restartPolicy="Sometimes"),
        [
            'spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"'
        ],
    ),
    "an unknown DNS policy": (
        pod(dnsPolicy="Mine"),
        [
            'spec.dnsPolicy: Unsupported value: "Mine": supported values: "ClusterFirstWithHostNet", '
            '"ClusterFirst", "Default", "None"'
        ],
    ),
    "no DNS at all": (
        pod(dnsPolicy="None"),
        ["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    ),
    "a deadline of zero": (
        pod(activeDeadlineSeconds=0),
        ["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    ),
    "an unknown preemption policy": (
        pod(preemptionPolicy="Always"),
        [
            'spec.preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"'
        ],
    ),
    "a gate twice": (
        pod(schedulingGates=[{"name": "a/b"}, {"name": "a/b"}]),
        ['spec.schedulingGates[1]: Duplicate value: "a/b"'],
    ),
    "a gate on a pod that has a node": (
        pod(schedulingGates=[{"name": "wait"}], nodeName="n1"),
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    ),
    "a label value that is none": (
        pod(nodeSelector={"zone": "a b"}),
        [
            'spec.nodeSelector: Invalid value: "a b": a valid label must be an empty string or consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
            "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        ],
    ),
    "a hostname with dots": (
        pod(hostname="a.b"),
        ['spec.hostname: Invalid value: "a.b": must not contain dots'],
    ),
    "user namespaces with the host's processes": (
        pod(hostUsers=False, hostPID=True),
        [
            "spec.HostPID: Forbidden: when `hostUsers` is false",
        ],
    ),
    "an unknown operating system": (
        pod(os={"name": "plan9"}),
        [
            'spec.os: Unsupported value: "plan9": supported values: "linux", "windows"',
        ],
    ),
    "no name": (
        {**pod(), "metadata": {}},
        ["metadata.name: Required value: name or generateName is required"],
    ),
    "a namespace that is no label": (
        {**pod(), "metadata": {"name": "p", "namespace": "Team_A"}},
        [f'metadata.namespace: Invalid value: "Team_A": {LABEL_TEXT}'],
    ),
    "a label key with two slashes": (
        {**pod(), "metadata": {"name": "p", "labels": {"a/b/c": "x"}}},
        [
            'metadata.labels: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '
            "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
            "'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ],
    ),
    "two controllers": (
        {
            **pod(),
            "metadata": {
                "name": "p",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": True},
                    {"apiVersion": "v1", "kind": "B", "name": "b", "controller": False},
                ],
            },
        },
        [
            'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        ],
    ),
    "a finalizer of nobody": (
        {**pod(), "metadata": {"name": "p", "finalizers": ["mine"]}},
        [
            'metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it '
            "fully qualified"
        ],
    ),
}

ALL = {**RESOURCES, **CONTAINERS, **PROBES, **VOLUMES, **PODS}


@pytest.mark.parametrize(("obj", "want"), ALL.values(), ids=ALL.keys())
def test_a_pod_is_refused_in_kubernetes_words(obj: dict[str, Any], want: list[str]) -> None:
    assert told(obj) == want


def test_a_template_is_told_where_it_stands() -> None:
    obj = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "t"},
        "template": template(container(name="")),
    }
    assert told(obj) == ["template.spec.containers[0].name: Required value"]
