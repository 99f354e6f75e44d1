"""What may differ between two runs of one command, and what may not."""

from __future__ import annotations

import pytest

from fairway.conformance.kubectl.comparing import is_same

SAME = {
    "ages and the column they widen": (
        "kubectl get ns",
        "NAME   STATUS   AGE\na      Active   10s\n",
        "NAME   STATUS   AGE\na      Active   2m10s\n",
    ),
    "addresses": ("kubectl cluster-info", "at https://127.0.0.1:6443\n", "at https://127.0.0.1:38011\n"),
    "a node without a network": (
        "kubectl get pods -o wide --no-headers",
        "p   1/1   Running   0     3s    <none>   n\n",
        "p   1/1   Running   0     3s    10.0.0.2   n\n",
    ),
    "hash suffixes, and the order they sort in": (
        "kubectl get pods",
        "NAME   AGE\nd-7d9c5b7f8d-bbbbb   1s\nd-7d9c5b7f8d-ccccc   1s\n",
        "NAME   AGE\nd-5c6b8d9f7x-zzzzz   1s\nd-5c6b8d9f7x-xxxxx   1s\n",
    ),
    "uids and versions": (
        "kubectl get cm a -o yaml",
        '  resourceVersion: "12"\n  uid: 5f5b3a1e-0000-4000-8000-000000000001\n',
        '  resourceVersion: "940"\n  uid: 6f5b3a1e-0000-4000-8000-00000000beef\n',
    ),
    "how often a rollout said that it waits": (
        "kubectl rollout status deploy/d",
        'Waiting for deployment "d" rollout to finish: 0 of 2 updated replicas are available...\ndone\n',
        "done\n",
    ),
    "the order of a Go map": (
        "kubectl describe limitrange l",
        "Container  cpu  -  4\nContainer  memory  -  1Gi\n",
        "Container  memory  -  1Gi\nContainer  cpu  -  4\n",
    ),
}
DIFFERENT = {
    "a word": ("kubectl get ns", "NAME   STATUS\na      Active\n", "NAME   STATUS\na      Terminating\n"),
    "a count": ("kubectl get pods", "0/3 nodes\n", "0/2 nodes\n"),
    "a line too many": ("kubectl get ns", "a   Active   1s\n", "a   Active   1s\nb   Active   1s\n"),
    "an order that means something": ("kubectl get cm -o name", "a\nb\n", "b\na\n"),
    "nothing instead of something": ("kubectl get cm", "a\n", ""),
}


@pytest.mark.parametrize("case", SAME)
def test_what_differs_from_run_to_run_is_the_same(case: str) -> None:
    assert is_same(*SAME[case])


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_a_reader_would_notice_is_not(case: str) -> None:
    assert not is_same(*DIFFERENT[case])
