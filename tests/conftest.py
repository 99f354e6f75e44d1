"""How properties are tried: no deadlines and no complaints about slow drawing, since machines are shared.

And which tests may be skipped: those for which this machine really lacks something. They are counted at the end, each
with its reason, beside whether compiled code ran. A run in which any other test is skipped has failed.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fairway.compiled import building, loading

settings.register_profile("fairway", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fairway")

_BESIDE = Path(__file__).parents[2] / "shared"
# Why a test may be skipped, and whether that is so on this machine.
_LACKS = {
    "kubectl is not installed": shutil.which("kubectl") is None,
    "promtool is not installed": shutil.which("promtool") is None,
    "amtool is not installed": shutil.which("amtool") is None,
    "the openb traces are not beside the repository": not (_BESIDE / "traces" / "openb").is_dir(),
    "Kueue's decision tables are not beside the repository": not (_BESIDE / "conformance" / "kueue").is_dir(),
    "../shared/conformance/dra is not there": not (_BESIDE / "conformance" / "dra").is_dir(),
    "needs Alibaba's cluster-trace-v2026-GenAI": not (_BESIDE / "traces" / "genai").is_dir(),
    "no C compiler, or no Python headers": building.what_is_missing() is not None,
    "compiled code takes no stand-ins: the run as pure Python has it": loading.is_active(),
    "fields of compiled objects cannot be listed: the run as pure Python does it": loading.is_active(),
    "large pages are asked of Linux only, by code that has to be compiled": sys.platform != "linux"
    or building.what_is_missing() is not None,
}
_skipped: Counter[str] = Counter()
_wrongly_skipped: list[str] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> Iterator[None]:
    yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        _skipped[reason] += 1
        if not _LACKS.get(reason) and not (reason.startswith("pure Python") and not loading.is_active()):
            _wrongly_skipped.append(f"{report.nodeid}: {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _wrongly_skipped and session.exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"ran as {loading.state()}")
    for reason, count in sorted(_skipped.items()):
        terminalreporter.write_line(f"skipped {count}: {reason}")
    for line in _wrongly_skipped:
        terminalreporter.write_line(f"skipped although nothing is missing: {line}", red=True)
