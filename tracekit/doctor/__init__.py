"""What this machine can do for tracekit: every answer is found by trying."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tracekit.doctor.check import Check, Finding, Group, caught
from tracekit.doctor.core import CORE
from tracekit.doctor.engines import ENGINES
from tracekit.doctor.machine import MACHINE
from tracekit.doctor.sources import SOURCES
from tracekit.doctor.tools import TOOLS

GROUPS: tuple[Group, ...] = (CORE, ENGINES, SOURCES, MACHINE, TOOLS)
Result = tuple[Group, Check, Finding]


def examine(
    groups: tuple[Group, ...] = GROUPS, *, on_done: Callable[[], None] | None = None
) -> list[Result]:
    """Make every check, several at once, and return what they found in the groups' order."""

    def make(check: Check) -> Finding:
        finding = caught(check.probe)
        if on_done is not None:
            on_done()
        return finding

    checks = [(group, check) for group in groups for check in group.checks]
    with ThreadPoolExecutor(max_workers=4) as pool:
        findings = list(pool.map(make, [check for _, check in checks]))
    return [(*pair, finding) for pair, finding in zip(checks, findings, strict=True)]


def core_works(results: list[Result]) -> bool:
    """Say whether every required check is good."""
    return all(finding.status == "ok" for _, check, finding in results if check.is_required)
