"""The bill in FOCUS columns: what other FinOps tools read.

One row per owner, machine and charge period. Costs are dollars as decimals with six places; billed costs are exact. All
mandatory columns of version 1.2 are there, and the conditional ones that a cluster knows about. What Fairway does not
know is null, not guessed; columns of Fairway's own begin with `x_`, as the specification asks.

Unlike FOCUS: costs of rows that nobody priced are null, where the specification wants a number; `x_Unpriced` tells
them.

Source: FinOps Open Cost and Usage Specification 1.2, column names, feature levels and allowed values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fairway.metering.bill import Kind, sum_of_hours

if TYPE_CHECKING:
    import polars as pl

MANDATORY = (
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ContractedCost",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
)
# Columns of the bill that become tags, where it has them.
TAGS = ("team", "project", "cost_center", "environment", "model", "experiment", "queue", "workload")
SPOT, RESERVED = "spot", "reserved"
_PRICING = {SPOT: "Dynamic", RESERVED: "Committed", "on-demand": "Standard"}
_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class FocusFacts:
    """What a bill does not say. `list_micros`: what an hour costs on demand, by (instance type, zone).

    `commitment`: the terms under which machines that are not spot were bought (`1y`); empty: none.
    """

    account: str = "fairway"
    provider: str = "Fairway"
    providers: Mapping[str, str] = field(default_factory=dict)
    regions: Mapping[str, str] = field(default_factory=dict)
    list_micros: Mapping[tuple[str, str], int] = field(default_factory=dict)
    commitment: str = ""


def focus_of(
    bill: pl.DataFrame, facts: FocusFacts | None = None, *, tags: Sequence[str] = TAGS
) -> pl.DataFrame:
    """The bill as FOCUS has it. Rows that cost nothing and are unpriced stay, with null costs."""
    import polars as pl

    facts = facts or FocusFacts()
    present = [t for t in tags if t in bill.columns]
    keys = ["kind", "start_us", "end_us", "namespace", "priced", *present, "machine", "instance_type", "zone",
            "capacity_type", "gpu_model", "micros_per_hour"]  # fmt: skip
    grouped = bill.group_by(keys).agg(pl.col("micros").sum(), sum_of_hours(pl.col("gpu_hours")))
    rows = grouped.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).sort(
        ["start_us", "machine", "namespace", "kind", *present]
    )
    rows = _with_list_prices(rows, facts)
    cost = _dollars(pl.col("micros"))
    list_cost = _dollars(pl.col("_list_micros"))
    provider = pl.col("instance_type").replace_strict(dict(facts.providers), default=facts.provider)
    is_committed = pl.col("_committed")
    return rows.select(
        cost.alias("BilledCost"),
        pl.lit(facts.account).alias("BillingAccountId"),
        pl.lit(facts.account).alias("BillingAccountName"),
        pl.lit("USD").alias("BillingCurrency"),
        _text(_moment(pl.col("start_us")).dt.truncate("1mo").dt.offset_by("1mo")).alias("BillingPeriodEnd"),
        _text(_moment(pl.col("start_us")).dt.truncate("1mo")).alias("BillingPeriodStart"),
        pl.lit("Usage").alias("ChargeCategory"),
        pl.lit(None, pl.String).alias("ChargeClass"),
        _words().alias("ChargeDescription"),
        pl.lit("Usage-Based").alias("ChargeFrequency"),
        _text(_moment(pl.col("end_us"))).alias("ChargePeriodEnd"),
        _text(_moment(pl.col("start_us"))).alias("ChargePeriodStart"),
        pl.when(is_committed).then(pl.lit("Usage")).alias("CommitmentDiscountCategory"),
        pl.when(is_committed).then(pl.lit(facts.commitment or RESERVED)).alias("CommitmentDiscountId"),
        pl.when(is_committed).then(pl.lit("Used")).alias("CommitmentDiscountStatus"),
        pl.col("gpu_hours").alias("ConsumedQuantity"),
        pl.lit("GPU Hours").alias("ConsumedUnit"),
        cost.alias("ContractedCost"),
        cost.alias("EffectiveCost"),
        provider.alias("InvoiceIssuerName"),
        list_cost.alias("ListCost"),
        pl.when(is_committed)
        .then(pl.lit("Committed"))
        .otherwise(pl.col("capacity_type").replace_strict(_PRICING, default="Other"))
        .alias("PricingCategory"),
        pl.col("_hours").alias("PricingQuantity"),
        pl.lit("Hours").alias("PricingUnit"),
        provider.alias("ProviderName"),
        provider.alias("PublisherName"),
        pl.col("zone").replace("", None).alias("AvailabilityZone"),
        pl.col("zone")
        .replace_strict(dict(facts.regions), default=None, return_dtype=pl.String)
        .alias("RegionId"),
        pl.col("machine").alias("ResourceId"),
        pl.col("machine").alias("ResourceName"),
        pl.col("instance_type").replace("", None).alias("ResourceType"),
        pl.lit("Compute").alias("ServiceCategory"),
        pl.lit("Kubernetes").alias("ServiceName"),
        pl.col("namespace").alias("SubAccountId"),
        pl.col("namespace").alias("SubAccountName"),
        _tags(rows, present).alias("Tags"),
        pl.col("kind").alias("x_Kind"),
        pl.col("gpu_model").replace("", None).alias("x_GpuModel"),
        (~pl.col("priced")).alias("x_Unpriced"),
    )


def _with_list_prices(rows: pl.DataFrame, facts: FocusFacts) -> pl.DataFrame:
    """Hours of the machine that a row is worth, what they cost on demand, and whether they were committed to."""
    import polars as pl

    prices = pl.DataFrame(
        [(t, z, m) for (t, z), m in facts.list_micros.items()],
        schema={"instance_type": pl.String, "zone": pl.String, "_list": pl.Int64},
        orient="row",
    )
    is_committed = (pl.col("capacity_type") == RESERVED) | (
        pl.lit(bool(facts.commitment)) & (pl.col("capacity_type") != SPOT)
    )
    hours = pl.when(pl.col("micros_per_hour") > 0).then(pl.col("micros") / pl.col("micros_per_hour"))
    # Where nobody lists a price, what was paid is the list price.
    listed = pl.col("_list").fill_null(pl.col("micros_per_hour"))
    found = rows.join(prices, on=["instance_type", "zone"], how="left", maintain_order="left")
    return found.with_columns(hours.alias("_hours"), is_committed.alias("_committed")).with_columns(
        (pl.col("_hours") * listed).round(0).cast(pl.Int64).fill_null(pl.col("micros")).alias("_list_micros")
    )


def _dollars(micros: pl.Expr) -> pl.Expr:
    import polars as pl

    # As many digits as there are, first: micro-dollars of a million dollars have thirteen before the point.
    exact = (micros.cast(pl.Decimal(38, 6)) / _MICROS).cast(pl.Decimal(18, 6))
    return pl.when(pl.col("priced")).then(exact)


def _moment(micros: pl.Expr) -> pl.Expr:
    import polars as pl

    return micros.cast(pl.Datetime("us"))


def _text(moment: pl.Expr) -> pl.Expr:
    """RFC 3339 in UTC, to the second."""
    return moment.dt.strftime("%Y-%m-%dT%H:%M:%SZ")


def _words() -> pl.Expr:
    import polars as pl

    whose = {
        Kind.OWNED.value: "held by pods",
        Kind.UNUSED.value: "held by pods and not used",
        Kind.UNALLOCATED.value: "held by nobody",
        Kind.SYSTEM.value: "kept by the node for itself",
        Kind.BOOTING.value: "not a node yet",
    }
    name = pl.col("instance_type").replace("", "(no instance type)")
    return pl.concat_str([name, pl.col("kind").replace_strict(whose)], separator=", ")


def _tags(rows: pl.DataFrame, present: Sequence[str]) -> pl.Series:
    """By row, a JSON object of the labels that are there."""
    import polars as pl

    labels = rows.select(list(present)).iter_rows(named=True) if present else ({} for _ in range(rows.height))
    texts = [
        json.dumps({k: v for k, v in row.items() if v and not v.startswith("__")}, ensure_ascii=False)
        for row in labels
    ]
    return pl.Series(texts, dtype=pl.String)
