"""Makes recordings/promql.jsonl.gz: random queries over random series, and what a real Prometheus answers.

`python tools/promql_recording.py OUT [QUERIES] [SEED]`; needs Debian's `prometheus` package. Samples lie 137 ms and
more behind whole seconds and queries are asked at whole ones, so that no sample lies on a range's edge: Prometheus 2
counts it, Prometheus 3 does not. `rate` is asked of counters that begin high, where both extrapolate alike.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

BASE = 1_700_000_000
SAMPLES = 240
STEP = 15
PORT = 19_590
DATES = ("hour", "day_of_week", "month", "year", "days_in_month", "minute")


def make_series(chance: random.Random) -> list[tuple[dict[str, str], list[tuple[int, float]]]]:
    """Labels (with __name__) and samples (ms, value); families together."""
    found = []
    for name in ("g_a", "g_b"):
        for job in ("x", "y"):
            for inst in "123":
                labels = {"__name__": name, "job": job, "inst": inst, "zone": chance.choice("pq")}
                level = chance.uniform(-50, 150)
                found.append(
                    (
                        labels,
                        _samples(
                            chance,
                            lambda level=level: level + chance.uniform(-40, 40),
                            has_special=name == "g_a",
                        ),
                    )
                )
    for job in ("x", "y"):
        for inst in "123":
            total = [chance.uniform(1e6, 2e6)]

            def count(total: list[float] = total) -> float:
                total[0] += chance.choice((0, 1, 3.5, 20))
                if chance.random() < 0.01:
                    total[0] *= 0.9
                return total[0]

            found.append(
                ({"__name__": "c_total", "job": job, "inst": inst}, _samples(chance, count, is_counter=True))
            )
    for inst in "12":
        for le, share in (("0.1", 0.2), ("1", 0.5), ("2.5", 0.8), ("+Inf", 1.0)):
            at = [1e6 * share]

            def fill(at: list[float] = at, share: float = share) -> float:
                at[0] += share * chance.randint(0, 9)
                return at[0]

            found.append(
                ({"__name__": "h_bucket", "inst": inst, "le": le}, _samples(chance, fill, is_counter=True))
            )
    for inst in "123":
        labels = {"__name__": "info_i", "inst": inst, "rack": chance.choice("rs")}
        found.append((labels, _samples(chance, lambda: 1.0)))
    return found


def _samples(
    chance: random.Random, draw, is_counter: bool = False, has_special: bool = False
) -> list[tuple[int, float]]:
    shift, out, gap = 137 + chance.randrange(0, 9000), [], 0
    special = has_special and chance.random() < 0.4
    for at in range(SAMPLES):
        value = draw()
        if gap:
            gap -= 1
            continue
        if not is_counter and chance.random() < 0.01:
            gap = chance.randrange(1, 40)
        if special and chance.random() < 0.03:
            value = chance.choice((float("nan"), float("inf"), float("-inf"), 0.0))
        out.append(
            (
                (BASE + at * STEP) * 1000 + shift,
                round(value, chance.choice((0, 2, 6)))
                if value == value and abs(value) != float("inf")
                else value,
            )
        )
    return out


class Queries:
    """Random queries that type-check."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def pick(self, *options):
        return self.chance.choice(options)

    def selector(self, counter: bool = False) -> str:
        name = "c_total" if counter else self.pick("g_a", "g_b", "g_a", "g_b", "c_total", "info_i")
        matchers = []
        if self.chance.random() < 0.4:
            matchers.append(
                self.pick(
                    'job="x"',
                    'job=~"x|y"',
                    'inst!="1"',
                    'inst=~"[12]"',
                    'zone="p"',
                    'job!~"x"',
                    'gone=""',
                    'inst="7"',
                )
            )
        return name + ("{" + ",".join(matchers) + "}" if matchers else "")

    def moved(self) -> str:
        roll = self.chance.random()
        if roll < 0.75:
            return ""
        if roll < 0.9:
            return f" offset {self.pick('30s', '2m', '10m', '-1m')}"
        return f" @ {self.pick(BASE + 1207, BASE + 2003.5, 'start()', 'end()')}"

    def ranged(self, counter: bool = False, depth: int = 1) -> str:
        span = self.pick("40s", "1m", "2m", "5m", "10m", "20m")
        if depth > 0 and self.chance.random() < 0.2:
            inner = f"rate({self.selector(True)}[{self.pick('1m', '2m')}])" if counter else self.flat()
            return f"({inner})[{span}:{self.pick('10s', '20s', '30s', '1m', '')}]{self.moved()}"
        return f"{self.selector(counter)}[{span}]{self.moved()}"

    def flat(self) -> str:
        """A vector without a subquery."""
        return self.pick(
            self.selector(),
            f"{self.selector()} * 2",
            f"sum by (job) ({self.selector()})",
            f"abs({self.selector()})",
        )

    def scalar(self, depth: int) -> str:
        if depth <= 0 or self.chance.random() < 0.7:
            return self.pick("2", "0.5", "-3", "10", "1e3", "time() / 1e8", "pi()", "7")
        return self.pick(
            f"scalar(sum({self.vector(depth - 1)}))",
            f"(1 + {self.scalar(depth - 1)})",
            f"(3 > bool {self.scalar(depth - 1)})",
        )

    def grouping(self) -> str:
        return self.pick(
            "",
            "",
            " by (job)",
            " by (inst)",
            " by (job, zone)",
            " without (inst)",
            " without (zone, job)",
            " by (gone)",
        )

    def relabelled(self, depth: int) -> str:
        target, source = self.pick("job", "new", "zone"), self.pick("inst", "job")
        value, pattern = self.pick("$1-a", "$1-$1"), self.pick("(.*)", "(1|2)", "(x)y?")
        return f'label_replace({self.vector(depth - 1)}, "{target}", "{value}", "{source}", "{pattern}")'

    def quantile(self) -> str:
        of = self.pick("h_bucket", "rate(h_bucket[2m])", "sum by (le) (rate(h_bucket[5m]))")
        return f"histogram_quantile({self.pick('0.5', '0.9', '0.99', '0.1')}, {of})"

    def vector(self, depth: int) -> str:
        if depth <= 0:
            return self.selector() + self.moved()
        kind = self.chance.randrange(12)
        if kind == 0:
            return self.selector() + self.moved()
        if kind in (1, 2):
            name = self.pick(
                "avg", "min", "max", "sum", "count", "last", "present", "stddev", "stdvar", "quantile"
            )
            q = f"{self.pick('0.5', '0.9', '0', '1', '0.33')}, " if name == "quantile" else ""
            return f"{name}_over_time({q}{self.ranged()})"
        if kind == 3:
            name = self.pick("rate", "increase", "irate", "resets", "changes")
            span = self.pick("1m", "2m", "5m", "10m")
            return f"{name}({self.selector(True)}[{span}]{self.moved()})"
        if kind == 4:
            name = self.pick(
                "delta", "idelta", "deriv", "predict_linear", "holt_winters", "changes", "absent_over_time"
            )
            more = {
                "predict_linear": f", {self.pick('60', '3600', '-30')}",
                "holt_winters": ", 0.3, 0.6",
            }.get(name, "")
            if name == "predict_linear":
                # Prometheus 2 forgets the samples of `@` at the second step.
                return f"{name}({self.ranged().split(' @ ')[0]}{more})"
            return f"{name}({self.ranged()}{more})"
        if kind == 5:
            name = self.pick(
                "abs",
                "ceil",
                "floor",
                "sgn",
                "sqrt",
                "exp",
                "ln",
                "log2",
                "log10",
                "round",
                "-",
                "deg",
                "rad",
                "sin",
                "cos",
                "atan",
                "tanh",
                "hour",
                "day_of_week",
                "month",
                "year",
                "days_in_month",
                "minute",
                "timestamp",
                "absent",
            )
            inner = self.vector(depth - 1)
            if name in DATES:
                inner = f"timestamp({inner}) * 7"
            if name == "exp":
                inner = f"({inner}) / 100"
            return f"-({inner})" if name == "-" else f"{name}({inner})"
        if kind == 6:
            return self.pick(
                f"clamp({self.vector(depth - 1)}, -20, {self.scalar(0)})",
                f"clamp_min({self.vector(depth - 1)}, {self.scalar(0)})",
                f"clamp_max({self.vector(depth - 1)}, {self.scalar(0)})",
                f"round({self.vector(depth - 1)}, 5)",
                self.relabelled(depth),
                f'label_join({self.vector(depth - 1)}, "j", "-", "job", "inst")',
            )
        if kind in (7, 8):
            name = self.pick(
                "sum",
                "avg",
                "min",
                "max",
                "count",
                "stddev",
                "stdvar",
                "group",
                "quantile",
                "topk",
                "bottomk",
                "count_values",
            )
            head = {
                "quantile": f"{self.pick('0.5', '0.9', '0.25')}, ",
                "topk": f"{self.pick('1', '2', '3')}, ",
                "bottomk": f"{self.pick('1', '2')}, ",
                "count_values": '"v", ',
            }.get(name, "")
            inner = self.vector(depth - 1)
            if name in ("topk", "bottomk"):
                # Among equal values Prometheus takes one by its heap's order.
                inner = self.pick("g_a", "g_b", "avg_over_time(g_a[5m])", "g_b * 2", "rate(c_total[10m])")
            if name in ("stddev", "stdvar"):
                # Of one value that is no number, Prometheus 2 says 0 and Prometheus 3 NaN.
                inner = self.pick("g_b", "avg_over_time(g_b[5m])", "g_b * 2", "rate(c_total[10m])")
            if name == "count_values":
                inner = f"round({inner}, 50)"
            return f"{name}{self.grouping()} ({head}{inner})"
        if kind == 9:
            op = self.pick(
                "+", "-", "*", "/", "%", "^", "==", "!=", ">", "<", ">=", "<=", "> bool", "<= bool"
            )
            if op == "^":
                return f"({self.vector(depth - 1)}) ^ {self.pick('2', '0.5', '-1')}"
            if self.chance.random() < 0.5:
                return f"({self.vector(depth - 1)}) {op} {self.scalar(1)}"
            return f"{self.scalar(1)} {op} ({self.vector(depth - 1)})"
        if kind == 10:
            op = self.pick(
                "+", "-", "*", "/", "%", ">", "<", "!=", "and", "or", "unless", "and", "or", ">= bool"
            )
            is_set = op in ("and", "or", "unless")
            how = self.pick("", "", " on (inst)", " ignoring (zone)", " on (job, inst)", " on ()")
            if op in (">", "<", "!="):
                # Prometheus 2 sees several matches only among pairs that a comparison keeps.
                how = ""
            if not is_set and how and self.chance.random() < 0.4:
                how += self.pick(" group_left", " group_right", " group_left (zone)", " group_left (rack)")
            return f"({self.vector(depth - 1)}) {op}{how} ({self.vector(depth - 1)})"
        return self.pick(
            self.quantile(),
            "sum by (rack) (g_a * on (inst) group_left (rack) info_i)",
            f"sum({self.vector(depth - 1)}) / count({self.vector(depth - 1)})",
            f"vector({self.scalar(1)})",
        )


def ask(query: str, start: int, end: int, step: int) -> dict:
    asked = urllib.parse.urlencode({"query": query, "start": start, "end": end, "step": step})
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{PORT}/api/v1/query_range?{asked}", timeout=30
        ) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as refused:
        return json.load(refused)


def main() -> None:
    out, count, seed = (
        Path(sys.argv[1]),
        int((sys.argv[2:3] or ["600"])[0]),
        int((sys.argv[3:4] or ["20"])[0]),
    )
    chance = random.Random(seed)
    series = make_series(chance)
    with tempfile.TemporaryDirectory() as folder, gzip.GzipFile(out, "w", mtime=0) as file:
        lines = []
        for labels, samples in series:
            text = ",".join(f'{k}="{v}"' for k, v in labels.items() if k != "__name__")
            lines += [f"{labels['__name__']}{{{text}}} {value!r} {t / 1000:.3f}" for t, value in samples]
        text = (
            "\n".join(lines).replace(" nan ", " NaN ").replace(" inf ", " +Inf ").replace(" -inf ", " -Inf ")
        )
        Path(folder, "in.om").write_text(text + "\n# EOF\n")
        subprocess.run(
            [
                "promtool",
                "tsdb",
                "create-blocks-from",
                "openmetrics",
                "-q",
                f"{folder}/in.om",
                f"{folder}/data",
            ],
            check=True,
        )
        Path(folder, "prometheus.yml").write_text("global: {evaluation_interval: 1m}\n")
        server = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address=127.0.0.1:{PORT}",
                "--storage.tsdb.retention.time=100y",
                "--enable-feature=promql-at-modifier,promql-negative-offset",
                "--log.level=error",
            ]
        )
        try:
            for _ in range(100):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{PORT}/-/ready", timeout=1).read()
                    break
                except OSError:
                    time.sleep(0.2)
            file.write(json.dumps({"base": BASE}).encode() + b"\n")
            for labels, samples in series:
                row = {
                    "series": labels,
                    "times": [t - BASE * 1000 for t, _ in samples],
                    "values": [repr(v) for _, v in samples],
                }
                file.write(json.dumps(row).encode() + b"\n")
            queries = Queries(chance)
            for _ in range(count):
                query = queries.vector(chance.choice((1, 2, 2, 3)))
                start = BASE + 607 + 10 * chance.randrange(0, 200)
                step = 10 * chance.choice((1, 3, 6, 17))
                end = start + step * chance.choice((0, 3, 11))
                said = ask(query, start, end, step)
                row = {"query": query, "start": start - BASE, "end": end - BASE, "step": step}
                if said["status"] == "success":
                    rows = said["data"]["result"]
                    row["result"] = [
                        [r["metric"], [[int(t) - BASE, v] for t, v in r["values"]]] for r in rows
                    ]
                else:
                    row["error"] = said["error"]
                file.write(json.dumps(row).encode() + b"\n")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
