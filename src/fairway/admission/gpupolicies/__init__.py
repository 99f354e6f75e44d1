"""The GPU policy set: ValidatingAdmissionPolicies that apply unchanged to any cluster (Kubernetes 1.30 and later).

Four policies, and two sets of bindings with the same names: `warn` first, `enforce` later. The YAML files beside
this module are what `kubectl apply` gets; here is only how to find them.
"""

from __future__ import annotations

from importlib.resources import files

from fairway.kube.manifest import Manifest, read_text

WARN, ENFORCE = "warn", "enforce"
MODES = (WARN, ENFORCE)
TITLE = "fairway.dev/title"


def policy_texts() -> dict[str, str]:
    """File name → YAML of every policy, in order."""
    here = files(__name__)
    names = sorted(f.name for f in here.iterdir() if f.name.endswith(".yaml") and f.name[0].isdigit())
    return {name: (here / name).read_text(encoding="utf-8") for name in names}


def binding_text(mode: str) -> str:
    """The bindings of one mode, as YAML."""
    return (files(__name__) / f"bindings-{mode}.yaml").read_text(encoding="utf-8")


def manifests(mode: str) -> list[Manifest]:
    """Policies and the bindings of one mode, read."""
    found = [m for name, text in policy_texts().items() for m in read_text(text, name)]
    return found + read_text(binding_text(mode), f"bindings-{mode}.yaml")
