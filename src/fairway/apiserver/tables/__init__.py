"""What does `kubectl get` show of these objects? `meta.k8s.io/v1` Tables, as kube's printers make them.

    table(gk, objects, now_us, *, list_meta=None, include_object="Metadata", columns=None, headers=True) -> dict
        `gk` is `Pod`, `Job.batch`, …; `objects` plain; `list_meta` the list's metadata (resourceVersion, continue);
        `include_object` is `None`, `Metadata` or `Object`; `columns` a CRD version's additionalPrinterColumns
        (None for kinds without). Kubernetes' kinds without printers get Name and Created At.
    column_definitions(gk, columns=None) -> list[dict]

Cells follow the order of `columnDefinitions`; priority 0 is shown always, 1 with `-o wide`. Ages are those at
`now_us`. Reading order: `printing`, `columns`, `ages`, `wording`, `pods`, `workloads` and the other
files by subject, `custom` (with `jsonpath`).
"""

from __future__ import annotations

from fairway.apiserver.tables.printing import column_definitions, table

__all__ = ["column_definitions", "table"]
