"""How workers find each other: Services, cluster DNS, and policies that stand between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from fairway.answers.doctor.findings import Finding, Patient, found
from fairway.kube.conditions import is_condition_true
from fairway.kube.labels import label_selector
from fairway.kube.objects import Key, Obj, labels_of, name_of, namespace_of, spec_of, status_of

_ADDRESSES = ("MASTER_ADDR", "PET_RDZV_ENDPOINT", "RDZV_ENDPOINT")
_DNS_PORT = 53
_SYSTEM = "kube-system"
_OF_DNS = {"k8s-app": "kube-dns"}


def headless(patient: Patient) -> Finding:
    """Subdomains and rendezvous addresses that no Service of the namespace answers to."""
    lines: dict[tuple[str, str], str] = {}
    siblings = Counter((namespace_of(p), spec_of(p).get("subdomain")) for p in _running(patient))
    for pod in _running(patient):
        home = namespace_of(pod)
        # Whoever is alone under its subdomain has nobody to find.
        for name in _wanted(pod, has_siblings=siblings[home, spec_of(pod).get("subdomain")] > 1):
            if patient.moment.store.get(Key("Service", home, name)) is None and not _is_pod(
                patient, home, name
            ):
                lines.setdefault((home, name), f"{home}/pod/{name_of(pod)}")
    return found((pod, f"no Service {name} is in {home}") for (home, name), pod in lines.items())


def _running(patient: Patient) -> Iterator[Obj]:
    for pod in patient.moment.store.objects("Pod"):
        if status_of(pod).get("phase") not in ("Succeeded", "Failed") and patient.is_mine(namespace_of(pod)):
            yield pod


def _wanted(pod: Obj, *, has_siblings: bool) -> list[str]:
    """First labels of names that are to be resolved within the namespace."""
    found = [str(spec_of(pod)["subdomain"])] if spec_of(pod).get("subdomain") and has_siblings else []
    for container in spec_of(pod).get("containers") or ():
        for variable in container.get("env") or ():
            host = str(variable.get("value") or "").rpartition("://")[2].partition(":")[0]
            if variable.get("name") in _ADDRESSES and host and not _is_address(host):
                parts = host.split(".")
                found.append(
                    parts[1] if len(parts) > 1 and spec_of(pod).get("subdomain") == parts[1] else parts[0]
                )
    return found


def _is_address(host: str) -> bool:
    return host in ("localhost", "0.0.0.0") or "$" in host or host.replace(".", "").isdigit()


def _is_pod(patient: Patient, namespace: str, name: str) -> bool:
    return patient.moment.store.get(Key("Pod", namespace, name)) is not None


def dns(patient: Patient) -> Finding:
    """DNS pods that are there and do not run, and policies under which pods cannot ask them."""
    store = patient.moment.store
    lines = [
        (f"{_SYSTEM}/pod/{name_of(p)}", "this DNS server is not Ready")
        for p in store.objects("Pod", _SYSTEM)
        if _OF_DNS.items() <= labels_of(p).items()
        and not is_condition_true(status_of(p).get("conditions"), "Ready")
    ]
    for policy in store.objects("NetworkPolicy.networking.k8s.io"):
        home, spec = namespace_of(policy), spec_of(policy)
        if "Egress" not in (spec.get("policyTypes") or ()) or not patient.is_mine(home):
            continue
        selector = label_selector(spec.get("podSelector") or {})
        caught = [p for p in store.objects("Pod", home) if selector.matches(labels_of(p))]
        if caught and not any(_allows_dns(rule) for rule in spec.get("egress") or ()):
            said = f"lets {len(caught)} pods out of {home} nowhere on port {_DNS_PORT}"
            lines.append((f"{home}/networkpolicy/{name_of(policy)}", said))
    return found(lines)


def _allows_dns(rule: dict[str, Any]) -> bool:
    ports = rule.get("ports")
    return not ports or any(p.get("port") in (None, _DNS_PORT, "dns", str(_DNS_PORT)) for p in ports)
