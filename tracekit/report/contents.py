"""What the page contains: one function a section, in the order of the page.

A section of a simulation that nobody asked for is None: it is not missing.
"""

from __future__ import annotations

from collections.abc import Callable

from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section
from tracekit.report.sections.answer import answer
from tracekit.report.sections.applications import applications
from tracekit.report.sections.buffer import buffer
from tracekit.report.sections.cache import cache
from tracekit.report.sections.capacity import capacity
from tracekit.report.sections.commits import commits
from tracekit.report.sections.comparison import comparison
from tracekit.report.sections.counters import counters
from tracekit.report.sections.coverage import coverage
from tracekit.report.sections.dax import dax
from tracekit.report.sections.depth import depth
from tracekit.report.sections.device import device
from tracekit.report.sections.endurance import endurance
from tracekit.report.sections.fidelity import fidelity
from tracekit.report.sections.file_operations import file_operations
from tracekit.report.sections.file_runs import file_runs
from tracekit.report.sections.footprint import footprint
from tracekit.report.sections.heat_map import heat_map
from tracekit.report.sections.interarrival import interarrival
from tracekit.report.sections.latency import latency
from tracekit.report.sections.layout import layout
from tracekit.report.sections.mix import mix
from tracekit.report.sections.processes import processes
from tracekit.report.sections.provenance import provenance
from tracekit.report.sections.replay import replay
from tracekit.report.sections.reproduce import reproduce
from tracekit.report.sections.sensitivity import sensitivity
from tracekit.report.sections.sequentiality import sequentiality
from tracekit.report.sections.sizes import sizes
from tracekit.report.sections.throughput import throughput
from tracekit.report.sections.tiers import tiers
from tracekit.report.sections.totals import totals
from tracekit.report.sections.verification import verification
from tracekit.report.sections.warnings import warnings

SECTIONS: tuple[Callable[[Inputs], Section | Missing | None], ...] = (
    answer,
    warnings,
    capacity,
    sensitivity,
    endurance,
    verification,
    tiers,
    cache,
    buffer,
    totals,
    applications,
    coverage,
    footprint,
    heat_map,
    mix,
    sizes,
    commits,
    throughput,
    interarrival,
    sequentiality,
    latency,
    depth,
    processes,
    file_operations,
    replay,
    comparison,
    device,
    dax,
    file_runs,
    counters,
    fidelity,
    layout,
    provenance,
    reproduce,
)

MEASURED: tuple[Callable[[Inputs], Section | Missing | None], ...] = (
    file_operations,
    device,
    dax,
    file_runs,
    counters,
    provenance,
    reproduce,
)
"""The sections of a folder without requests: what was measured or recorded, and how."""
