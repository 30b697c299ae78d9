"""How much longer a placement takes than the best one would, were the devices or the load others.

On each device with one part that takes half or twice as long, and in each window of the trace, the
best placement of the capacity is looked for anew, and all that were found are compared there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tracekit._native.best_placement import BestKernel
from tracekit._native.placement import Rows
from tracekit.model.answer import Cut, PartGain, WindowGain
from tracekit.model.best_placement import WORK, OnNvm, Search, prices_of, setup_of
from tracekit.model.best_records import Regret
from tracekit.model.changes import changed_devices, variants
from tracekit.model.gain_range import FACTORS, Cutter
from tracekit.model.sensitivity import parameter_name, window_name

FRAGILE_RATIO = 0.1
"""A placement that somewhere takes more than a tenth longer than the best one there is fragile."""
DEARER_RATIO = 0.03
"""A more robust placement may take so much longer on the devices and the trace as they are."""
ROUNDS = 4
MOST_WINDOWS = 24
Placements = Mapping[str, OnNvm]


@dataclass(frozen=True)
class Case:
    """What placements take on other devices, or in a window, and the best one found there."""

    name: str
    times_ps: Mapping[str, int]
    best_ps: int


def regrets(search: Search, capacity: int, *, placements: Placements, cut: Cut) -> list[Regret]:
    """Return the largest regret of each placement, the least first; none where that is too dear."""
    cost = search.size.pairs * (len(placements) + 2 * ROUNDS)
    cases: list[Case] = []
    if cost * len(list(variants(search.trace.devices, FACTORS))) < 4 * WORK:
        cases += _on_devices(search, capacity, placements)
    if cost < 4 * WORK:
        cases += _in_windows(search, capacity, placements, cut)
    return sorted(
        (_worst(name, cases) for name in placements if cases),
        key=lambda one: one.worst_ratio,
    )


def _worst(name: str, cases: Sequence[Case]) -> Regret:
    found = [(_regret(case.times_ps[name], case.best_ps), case.name) for case in cases]
    ratio, where = max(found, key=lambda one: one[0])
    return Regret(placement=name, worst_ratio=ratio, worst_case=where)


def _regret(time_ps: int, best_ps: int) -> float:
    return time_ps / best_ps - 1 if best_ps else 0.0


def _case(
    name: str, kernel: BestKernel, groups: int, capacity: int, placements: Placements
) -> Case:
    kernel.weigh(ROUNDS)
    found_ps, _ = kernel.choose(capacity, kernel.values(groups), steps=0)
    kernel.weigh(ROUNDS, blocks=capacity)
    aimed_ps, _ = kernel.choose(capacity, kernel.values(groups), steps=0)
    times = {key: kernel.time_ps(on_nvm) for key, on_nvm in placements.items()}
    return Case(name, times, min(found_ps, aimed_ps, *times.values()))


def _on_devices(search: Search, capacity: int, placements: Placements) -> Iterator[Case]:
    """Yield a case for each part of a device at each factor; then the prices are as before."""
    devices = search.trace.devices
    for change in variants(devices, FACTORS):
        search.kernel.reprice(prices_of(changed_devices(devices, change)))
        part = PartGain(0.0, str(change.device), change.parameter, change.factor)
        name = parameter_name(part)
        yield _case(name, search.kernel, search.size.groups, capacity, placements)
    search.kernel.reprice(prices_of(devices))


def _in_windows(search: Search, capacity: int, placements: Placements, cut: Cut) -> Iterator[Case]:
    """Yield a case for each window, of which there are no more than MOST_WINDOWS."""
    trace = replace(search.trace, on_rows=None)
    cuts = np.zeros(len(trace.touched.keys), np.uint8)
    cuts[search.starts] = 1
    cutter = Cutter(cut)
    kernels: dict[int, BestKernel] = {}
    try:
        for rows in trace.rows():
            time_ns = np.where(rows.queue_ns < 0, rows.issue_ns, rows.queue_ns)
            for number, begin, end in cutter.parts(time_ns):
                if number not in kernels and len(kernels) == MOST_WINDOWS:
                    return
                kernel = kernels.setdefault(number, BestKernel(setup_of(trace)))
                part = {name: column[begin:end] for name, column in vars(rows).items()}
                kernel.add(Rows(**part))
        for number, kernel in kernels.items():
            size = kernel.finish(cuts)
            one = cutter.window(number)
            name = window_name(WindowGain(0.0, one.number, one.start_ns, one.end_ns, one.requests))
            yield _case(name, kernel, size.groups, capacity, placements)
    finally:
        for kernel in kernels.values():
            kernel.__exit__(None, None, None)
