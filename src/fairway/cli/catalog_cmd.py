"""`fairway catalog`: which GPUs, machines and prices does Fairway know?"""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fairway.catalog.gpus import GpuModel
    from fairway.catalog.instances import InstanceType
    from fairway.catalog.prices import Price

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="GPU models, instance types and prices: what ships with Fairway, and what your own files say.\n\n"
    "Example: fairway catalog price p4d.24xlarge --capacity-type spot",
)

Books = Annotated[
    list[Path] | None,
    typer.Option(
        "--book", "-b", metavar="FILE|DIR", exists=True, help="Your PriceBooks and catalogs; later ones win."
    ),
]
Output = Annotated[str, typer.Option("--output", "-o", metavar="table|json", help="How to print.")]
_GIB = 2**30


@app.command("gpus")
def gpus(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="One model, with its MIG profiles.")
    ] = None,
    books: Books = None,
    output: Output = "table",
) -> None:
    """List GPU models, or the MIG profiles of one.

    Example: fairway catalog gpus A100-40GB
    """
    from fairway.catalog.catalog import load_catalog
    from fairway.cli.output import check_output, print_json, print_table
    from fairway.errors import UserError

    check_output(output)
    catalog = load_catalog(books or ())
    found = catalog.gpus() if model is None else tuple(m for m in (catalog.gpu(model),) if m is not None)
    if not found:
        known = ", ".join(m.name for m in catalog.gpus())
        raise UserError(f"no GPU model {model!r}: expected one of {known}")
    if output == "json":
        print_json([_gpu_json(m) for m in found])
    elif model is None:
        header = ("MODEL", "ARCH", "MEMORY", "SMS", "GB/S", "WATTS", "THROTTLE", "NVLINK", "MIG")
        print_table(header, [_gpu_row(m) for m in found], right=(2, 3, 4, 5, 6, 7))
    else:
        _print_model(found[0])


def _gpu_row(m: GpuModel) -> tuple[str, ...]:
    return (
        m.name,
        m.architecture,
        f"{m.memory_bytes // 2**20}Mi",
        str(m.sms),
        str(m.bandwidth_gb_per_s),
        str(m.tdp_w),
        f"{m.throttle_c}°C",
        str(m.nvlink_gb_per_s or "-"),
        f"{len(m.mig)} profiles" if m.mig else "-",
    )


def _gpu_json(m: GpuModel) -> dict[str, Any]:
    return {
        "name": m.name,
        "products": list(m.products),
        "architecture": m.architecture,
        "memoryBytes": m.memory_bytes,
        "sms": m.sms,
        "bandwidthGBPerSecond": m.bandwidth_gb_per_s,
        "tdpWatts": m.tdp_w,
        "throttleTemperatureC": m.throttle_c,
        "pcie": m.pcie,
        "nvlinkGBPerSecond": m.nvlink_gb_per_s,
        "memorySlices": m.memory_slices,
        "mig": [
            {
                "profile": p.name,
                "resource": p.resource,
                "id": p.id,
                "computeSlices": p.compute_slices,
                "memorySlices": p.memory_slices,
                "sms": p.sms,
                "memoryBytes": p.memory_bytes,
                "instancesMost": p.instances_most,
                "starts": list(p.starts),
            }
            for p in m.mig
        ],
    }


def _print_model(m: GpuModel) -> None:
    from fairway.cli.output import print_table

    typer.echo(f"{m.name} ({', '.join(m.products)}), {m.architecture}")
    typer.echo(
        f"{m.memory_bytes // 2**20} MiB, {m.sms} SMs, {m.bandwidth_gb_per_s} GB/s, {m.tdp_w} W, "
        f"throttles at {m.throttle_c} °C, PCIe {m.pcie}, NVLink {m.nvlink_gb_per_s or 'none'}"
    )
    if not m.mig:
        typer.echo("no MIG")
        return
    rows = [
        (
            p.name,
            str(p.id),
            str(p.instances_most),
            str(p.compute_slices),
            str(p.sms),
            f"{p.memory_bytes // 2**20}Mi",
            f"{{{','.join(map(str, p.starts))}}}:{p.memory_slices}",
        )
        for p in m.mig
    ]
    print_table(
        ("PROFILE", "ID", "MOST", "SLICES", "SMS", "MEMORY", "PLACEMENTS"), rows, right=(1, 2, 3, 4, 5)
    )


@app.command("instances")
def instances(
    provider: Annotated[
        str | None, typer.Option(metavar="aws|gcp|azure", help="Only of this cloud.", show_default=False)
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Only with this GPU.", show_default=False)
    ] = None,
    books: Books = None,
    output: Output = "table",
) -> None:
    """List instance types with their on-demand and spot price.

    Example: fairway catalog instances --gpu A100-40GB
    """
    from fairway.catalog.catalog import load_catalog
    from fairway.catalog.prices import SPOT
    from fairway.cli.output import check_output, print_json, print_table
    from fairway.errors import UserError

    check_output(output)
    catalog = load_catalog(books or ())
    model = catalog.gpu(gpu) if gpu else None
    if gpu and model is None:
        known = ", ".join(m.name for m in catalog.gpus())
        raise UserError(f"no GPU model {gpu!r}: expected one of {known}")
    providers = sorted({t.provider for t in catalog.instance_types()})
    if provider and provider not in providers:
        raise UserError(f"no provider {provider!r}: expected one of {', '.join(providers)}")
    found = [
        t
        for t in catalog.instance_types()
        if (not provider or t.provider == provider) and (model is None or t.gpu == model.name)
    ]
    prices = [(catalog.price(t.name), catalog.price(t.name, SPOT)) for t in found]
    if output == "json":
        print_json([_type_json(t, *pair) for t, pair in zip(found, prices, strict=True)])
        return
    header = ("PROVIDER", "TYPE", "GPUS", "GPU", "CPU", "MEMORY", "$/H", "SPOT $/H", "REGIONS")
    rows = [
        (
            t.provider,
            t.name,
            str(t.gpus or "-"),
            t.gpu or "-",
            f"{t.cpu_milli / 1000:g}",
            f"{t.memory_bytes // _GIB}Gi",
            *(_dollars(p) for p in pair),
            ",".join(t.regions) or "anywhere",
        )
        for t, pair in zip(found, prices, strict=True)
    ]
    print_table(header, rows, right=(2, 4, 5, 6, 7))


def _dollars(price: object) -> str:
    micros = getattr(price, "micros_per_hour", None)
    return "unpriced" if micros is None else f"{micros / 1e6:.4f}"


def _type_json(t: InstanceType, on_demand: object, spot: object) -> dict[str, Any]:
    return {
        "name": t.name,
        "provider": t.provider,
        "family": t.family,
        "cpuMilli": t.cpu_milli,
        "memoryBytes": t.memory_bytes,
        "gpu": t.gpu or None,
        "gpus": t.gpus,
        "regions": list(t.regions),
        "zones": list(t.zones),
        "onDemandMicrosPerHour": getattr(on_demand, "micros_per_hour", None),
        "spotMicrosPerHour": getattr(spot, "micros_per_hour", None),
    }


@app.command("price")
def price(
    instance_type: Annotated[str, typer.Argument(metavar="TYPE", help="Such as p5.48xlarge.")],
    capacity_type: Annotated[
        str, typer.Option("--capacity-type", "-c", metavar="on-demand|spot|reserved")
    ] = "on-demand",
    commitment: Annotated[
        str, typer.Option(metavar="1y|3y", help="The plan of reserved capacity.", show_default=False)
    ] = "",
    zone: Annotated[str, typer.Option(help="Where; else anywhere.", show_default=False)] = "",
    region: Annotated[str, typer.Option(help="Where; else anywhere.", show_default=False)] = "",
    at: Annotated[
        str | None, typer.Option(metavar="DATE", help="When; else the newest price.", show_default=False)
    ] = None,
    books: Books = None,
    output: Output = "table",
) -> None:
    """Say what an instance costs an hour and which line of which book says so; exit 1 when nobody does.

    Example: fairway catalog price p5.48xlarge --commitment 3y
    """
    from fairway.catalog.catalog import load_catalog
    from fairway.catalog.prices import CAPACITY_TYPES, COMMITMENTS, Unpriced
    from fairway.cli.output import MAX_WIDTH, check_output, print_json
    from fairway.errors import UserError

    check_output(output)
    for name, value, known in (
        ("--capacity-type", capacity_type, CAPACITY_TYPES),
        ("--commitment", commitment, ("", *COMMITMENTS)),
    ):
        if value not in known:
            raise UserError(f"{name} {value!r}: expected one of {', '.join(k for k in known if k)}")
    catalog = load_catalog(books or ())
    found = catalog.price(
        instance_type, capacity_type, commitment=commitment, zone=zone, region=region, at_us=_moment(at)
    )
    if isinstance(found, Unpriced):
        if output == "json":
            print_json({"priced": False, "reason": found.reason.value, "message": str(found)})
        else:
            for line in wrap(str(found), MAX_WIDTH, break_long_words=False):
                typer.echo(line)
        raise typer.Exit(1)
    if output == "json":
        print_json(_price_json(found))
    else:
        terms = " ".join(t for t in (found.capacity_type, found.commitment, found.place) if t)
        typer.echo(f"{found.instance_type}  {terms}  ${_plain(found.micros_per_hour)}/h")
        typer.echo(f"book {found.book}, {found.where}, {_period(found)}")


def _plain(micros: int) -> str:
    """All digits that say something, and no others: 32.77, 10, 9.871234."""
    whole, rest = divmod(micros, 1_000_000)
    return f"{whole}.{rest:06}".rstrip("0").rstrip(".")


def _moment(text: str | None) -> int | None:
    from fairway.catalog.reading import parse_date
    from fairway.errors import UserError

    if text is None:
        return None
    try:
        return parse_date(text)
    except ValueError:
        raise UserError(f"--at {text!r}: expected a date such as 2026-01-31, or an RFC 3339 time") from None


def _period(found: Price) -> str:
    from fairway.catalog.prices import END_OF_TIME
    from fairway.kube.timestamps import rfc3339

    until = f" until {rfc3339(found.until_us)[:10]}" if found.until_us < END_OF_TIME else ""
    return f"from {rfc3339(found.from_us)[:10]}{until}"


def _price_json(found: Price) -> dict[str, Any]:
    from fairway.catalog.prices import END_OF_TIME
    from fairway.kube.timestamps import rfc3339

    return {
        "priced": True,
        "instanceType": found.instance_type,
        "capacityType": found.capacity_type,
        "commitment": found.commitment or None,
        "place": found.place or None,
        "microsPerHour": found.micros_per_hour,
        "from": rfc3339(found.from_us),
        "until": rfc3339(found.until_us) if found.until_us < END_OF_TIME else None,
        "book": found.book,
        "file": found.file,
        "line": found.line,
    }
