"""How much longer a placement takes than the best one would, were the devices or the load others.

On each device with one part that takes half or twice as long, and in each window of the trace, the
best placement of the capacity is looked for anew, and all that were found are compared there. Where
a device's part cannot change what is known by then, that is left out.
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
from tracekit.model.changes import Change, changed_devices, variants
from tracekit.model.gain_range import FACTORS, Cutter
from tracekit.model.sensitivity import parameter_name, window_name

FRAGILE_RATIO = 0.1
"""A placement that somewhere takes more than a tenth longer than the best one there is fragile."""
DEARER_RATIO = 0.03
"""A more robust placement may take so much longer on the devices and the trace as they are."""
ROBUSTER_RATIO = 0.9
"""A placement whose regret is not a tenth smaller is no more robust than another."""
LEAST_WINDOW_RATIO = 0.01
"""A window that takes less, of what windows take on average on the base device, says nothing."""
ROUNDS = 4
MOST_WINDOWS = 24
Placements = Mapping[str, OnNvm]


@dataclass(frozen=True)
class Case:
    """What placements take on other devices, or in a window, and the best one found there."""

    name: str
    times_ps: Mapping[str, int]
    best_ps: int


def can_compare(search: Search) -> bool:
    """Whether a trace is short enough that regrets of one placement would be looked at."""
    return search.size.pairs * (1 + 2 * ROUNDS) < 4 * WORK


def regrets(search: Search, capacity: int, *, placements: Placements, cut: Cut) -> list[Regret]:
    """Return the largest regret of each placement, the least first; none where that is too dear."""
    cost = search.size.pairs * (len(placements) + 2 * ROUNDS)
    cases: list[Case] = []
    if cost < 4 * WORK:
        cases += _in_windows(search, capacity, placements, cut)
    if cost * len(list(variants(search.trace.devices, FACTORS))) < 4 * WORK:
        add_devices(cases, search, capacity=capacity, placements=placements)
    return sorted(
        (worst_of(name, cases) for name in placements if cases),
        key=lambda one: one.worst_ratio,
    )


def worst_of(name: str, cases: Sequence[Case]) -> Regret:
    """Return the largest regret of a placement."""
    found = [(_regret(case.times_ps[name], case.best_ps), case.name) for case in cases]
    ratio, where = max(found, key=lambda one: one[0])
    return Regret(placement=name, worst_ratio=ratio, worst_case=where)


def _regret(time_ps: int, best_ps: int) -> float:
    return time_ps / best_ps - 1 if best_ps else 0.0


def case_of(
    name: str, kernel: BestKernel, *, groups: int, capacity: int, placements: Placements
) -> Case:
    """Return what placements take on what a kernel has, and the best one found there."""
    kernel.weigh(ROUNDS)
    found_ps, _ = kernel.choose(capacity, kernel.values(groups), steps=0)
    times = {key: kernel.time_ps(on_nvm) for key, on_nvm in placements.items()}
    kernel.tighten(capacity, target_ps=min(found_ps, *times.values()), rounds=ROUNDS)
    aimed_ps, _ = kernel.choose(capacity, kernel.values(groups), steps=0)
    return Case(name, times, min(found_ps, aimed_ps, *times.values()))


def add_devices(
    cases: list[Case], search: Search, *, capacity: int, placements: Placements
) -> None:
    """Add a case for each part of a device at each factor that can change a largest regret."""
    devices, worst = search.trace.devices, dict.fromkeys(placements, 0.0)
    for case in cases:
        _raise(worst, case)
    tried = sorted(_limits(search, placements), key=lambda one: -max(one[1].values()))
    for change, limits in tried:
        if all(limits[name] <= worst[name] for name in placements):
            continue
        search.kernel.reprice(prices_of(changed_devices(devices, change)))
        part = PartGain(0.0, str(change.device), change.parameter, change.factor)
        name = parameter_name(part)
        cases.append(
            case_of(
                name,
                search.kernel,
                groups=search.size.groups,
                capacity=capacity,
                placements=placements,
            )
        )
        _raise(worst, cases[-1])
    search.kernel.reprice(prices_of(devices))


def _raise(worst: dict[str, float], case: Case) -> None:
    for name, known in worst.items():
        worst[name] = max(known, _regret(case.times_ps[name], case.best_ps))


def _limits(search: Search, placements: Placements) -> Iterator[tuple[Change, dict[str, float]]]:
    """Yield each change of a device with how large regrets can be there.

    Taken for granted: no placement is better than the best one on the devices as they are, and a
    part that takes less saves no placement more than having nothing or everything on NVM.
    """
    kernel, devices = search.kernel, search.trace.devices
    ends = [np.full(len(search.trace.touched.keys), on, np.uint8) for on in (0, 1)]
    least_ps = min(kernel.time_ps(on_nvm) for on_nvm in placements.values())
    before_ps = [kernel.time_ps(on_nvm) for on_nvm in ends]
    for change in variants(devices, FACTORS):
        kernel.reprice(prices_of(changed_devices(devices, change)))
        best_ps = least_ps
        if change.factor < 1:
            best_ps -= max(
                was - kernel.time_ps(end) for was, end in zip(before_ps, ends, strict=True)
            )
        times = {name: kernel.time_ps(on_nvm) for name, on_nvm in placements.items()}
        yield (
            change,
            {
                name: time_ps / best_ps - 1 if best_ps > 0 else np.inf
                for name, time_ps in times.items()
            },
        )


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
        sizes = {number: kernel.finish(cuts) for number, kernel in kernels.items()}
        nothing = np.zeros(len(trace.touched.keys), np.uint8)
        base_ps = {number: kernel.time_ps(nothing) for number, kernel in kernels.items()}
        least_ps = LEAST_WINDOW_RATIO * sum(base_ps.values()) / max(len(kernels), 1)
        for number, kernel in kernels.items():
            if base_ps[number] < least_ps:
                continue
            size = sizes[number]
            one = cutter.window(number)
            name = window_name(WindowGain(0.0, one.number, one.start_ns, one.end_ns, one.requests))
            yield case_of(
                name, kernel, groups=size.groups, capacity=capacity, placements=placements
            )
    finally:
        for kernel in kernels.values():
            kernel.__exit__(None, None, None)
