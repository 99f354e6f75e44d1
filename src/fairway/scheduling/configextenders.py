"""Which extenders does a KubeSchedulerConfiguration name, and is each of them sound?

Source: pkg/scheduler/apis/config/validation/validation.go validateExtenders; scheduler.go buildExtenders (v1.36).
"""

from __future__ import annotations

from fairway.kube import names
from fairway.kube.durations import duration_us
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.configfields import Part
from fairway.scheduling.extenders import Extender

_DEFAULT_TIMEOUT_S = 5.0
_MOST = 64
_TLS = ("insecure", "serverName", "certFile", "keyFile", "caFile", "certData", "keyData", "caData")


def read_extenders(part: Part) -> tuple[tuple[Extender, ...], frozenset[str]]:
    """The extenders in the file's order, and the resources that NodeResourcesFit leaves to them."""
    ignored: dict[str, None] = {}
    seen: dict[str, None] = {}
    if len(part.items()) > _MOST:
        part.reject(f"expected at most {_MOST} extenders, found {len(part.items())}")
    found = [_extender(item, seen, ignored) for item in part.items()[:_MOST]]
    binders = sum(bool(e.bind_verb) for e in found)
    if binders > 1:
        part.reject(
            f'Invalid value: "found {binders} extenders implementing bind": only one extender can implement bind'
        )
    return tuple(found), frozenset(ignored)


def _extender(item: Part, seen: dict[str, None], ignored: dict[str, None]) -> Extender:
    fields = item.members(
        "urlPrefix",
        "filterVerb",
        "preemptVerb",
        "prioritizeVerb",
        "weight",
        "bindVerb",
        "enableHTTPS",
        "tlsConfig",
        "httpTimeout",
        "nodeCacheCapable",
        "managedResources",
        "ignorable",
    )
    tls = fields["tlsConfig"].members(*_TLS)
    url = fields["urlPrefix"].required_text()
    if url and not url.startswith(("http://", "https://")):
        fields["urlPrefix"].reject("expected an address that begins with http:// or https://")
    for name in ("certFile", "keyFile", "certData", "keyData", "caData"):
        if tls[name].value:
            tls[name].reject("client certificates and inline authorities are not read: expected caFile")
    prioritize = fields["prioritizeVerb"].text()
    weight = fields["weight"].integer(0, None, 2**40)
    if prioritize and weight <= 0:
        fields["weight"].reject("must have a positive weight applied to it")
    timeout = fields["httpTimeout"]
    timeout_us = timeout.parsed(lambda v: duration_us(v) or 0, "expected a duration such as 5s", 0)
    is_https = fields["enableHTTPS"].flag()
    ca_file = tls["caFile"].text()
    return Extender(
        url=url,
        filter_verb=fields["filterVerb"].text(),
        prioritize_verb=prioritize,
        preempt_verb=fields["preemptVerb"].text(),
        bind_verb=fields["bindVerb"].text(),
        weight=weight,
        timeout_s=timeout_us / SECOND_US if timeout_us > 0 else _DEFAULT_TIMEOUT_S,
        caches_nodes=fields["nodeCacheCapable"].flag(),
        managed=_managed(fields["managedResources"], seen, ignored),
        is_ignorable=fields["ignorable"].flag(),
        ca_file=ca_file,
        is_unverified=tls["insecure"].flag() or (is_https and not ca_file),
    )


def _managed(part: Part, seen: dict[str, None], ignored: dict[str, None]) -> tuple[str, ...]:
    out = []
    for item in part.items():
        fields = item.members("name", "ignoredByScheduler")
        name = fields["name"].required_text()
        complaints = names.label_key(name) if name else ()
        if complaints:
            fields["name"].reject("; ".join(complaints))
        elif name and "/" not in name:
            fields["name"].reject("must be an extended resource name: expected one such as example.com/gpu")
        if name in seen:
            fields["name"].reject("duplicate extender managed resource name")
        seen[name] = None
        if fields["ignoredByScheduler"].flag():
            ignored[name] = None
        out.append(name)
    return tuple(out)
