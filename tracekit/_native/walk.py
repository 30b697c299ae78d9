"""Placements simulated event by event: `replayer/model/event_simulation.h` behind numpy arrays."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tracekit._native import library
from tracekit._native.owned import Owned
from tracekit._native.placement import (
    ROLE_COUNT,
    Cost,
    NativeCost,
    NativeSetup,
    NativeTotals,
    Rows,
    Setup,
    Totals,
    add_rows,
    check_status,
    native_cost,
    native_setup,
    totals_of,
)
from tracekit._native.spindle import Disk, NativeDisk, Wide, native_disk, whole
from tracekit.errors import TracekitError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCENARIO = [("order", "<u2"), ("limit", "<u2", (ROLE_COUNT,))]

_I64 = ctypes.c_int64
_U64 = ctypes.c_uint64


@dataclass(frozen=True)
class Prices:
    """Devices, base and NVM: costs, the base device's head if it has one, and flushes in ps."""

    base: Cost
    nvm: Cost
    disk: Disk | None
    flush_ps: tuple[int, int]


@dataclass(frozen=True)
class Walk:
    """What a walk needs beyond `setup`; pairs are of base and NVM."""

    setup: Setup
    disk: Disk | None
    flush_ps: tuple[int, int]
    scenarios: NDArray[np.void]  # SCENARIO, ascending by order, the first with nothing on NVM
    is_open: bool
    servers: tuple[int, int]
    others: tuple[Prices, ...] = ()  # devices on which the same is walked at the same time


@dataclass(frozen=True)
class Walked:
    """Results by scenario in ps; the sums of response times may exceed 64 bits."""

    service_ps: list[int]
    makespan_ps: list[int]
    answer_ps: list[int]
    role_service_ps: tuple[int, ...]  # of the first scenario
    role_answer_ps: tuple[int, ...]
    totals: Totals
    responses: int
    undated: int
    beyond: int
    span_ps: int


class _Prices(ctypes.Structure):
    _fields_ = [
        ("base", NativeCost),
        ("nvm", NativeCost),
        ("disk", NativeDisk),
        ("flush_ps", _I64 * 2),
    ]


class _Setup(ctypes.Structure):
    _fields_ = [
        ("placement", NativeSetup),
        ("disk", NativeDisk),
        ("flush_ps", _I64 * 2),
        ("scenarios", ctypes.c_void_p),
        ("scenario_count", ctypes.c_uint32),
        ("is_open", ctypes.c_uint32),
        ("servers", ctypes.c_uint32 * 2),
        ("others", ctypes.c_void_p),
        ("other_count", _U64),
    ]


class _Walked(ctypes.Structure):
    _fields_ = [("service_ps", _I64), ("makespan_ps", _I64), ("answer_ps", Wide)]


class _Totals(ctypes.Structure):
    _fields_ = [
        ("placement", NativeTotals),
        ("role_answer_ps", Wide * ROLE_COUNT),
        ("role_service_ps", _I64 * ROLE_COUNT),
        ("responses", _I64),
        ("undated", _I64),
        ("beyond", _I64),
        ("span_ps", _I64),
    ]


@functools.cache
def _functions() -> ctypes.CDLL:
    native = library()
    native.tk_simulation_twin.restype = ctypes.c_int
    native.tk_simulation_twin.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_void_p,
    ]
    native.tk_simulation_new.restype = ctypes.c_int
    native.tk_simulation_new.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    native.tk_simulation_add.restype = ctypes.c_int
    native.tk_simulation_add.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    native.tk_simulation_finish.restype = ctypes.c_int
    native.tk_simulation_finish.argtypes = [ctypes.c_void_p]
    native.tk_simulation_read.restype = None
    native.tk_simulation_read.argtypes = [ctypes.c_void_p] * 3
    native.tk_simulation_free.restype = None
    native.tk_simulation_free.argtypes = [ctypes.c_void_p]
    return native


def walk(
    plan: Walk, batches: Iterable[Rows], *, groups: Sequence[NDArray[np.int64]] | None = None
) -> Walked:
    """Walk all scenarios through a trace; InputError names a request that makes no sense.

    Each group of scenarios (ascending indexes, of which the first is 0, the base alone) has a
    thread; together they are all. None: one for all.
    """
    import numpy as np

    parts = groups or [np.arange(len(plan.scenarios))]
    with ExitStack() as stack:
        kernels = [stack.enter_context(WalkKernel(plan, parts[0]))]
        kernels += [
            stack.enter_context(WalkKernel(plan, part, twin=kernels[0])) for part in parts[1:]
        ]
        pool = stack.enter_context(ThreadPoolExecutor(len(kernels)))
        for rows in batches:
            _all(pool, [functools.partial(kernel.add, rows) for kernel in kernels])
        _all(pool, [kernel.finish for kernel in kernels])
        return _together(kernels, len(plan.scenarios))


def _all(pool: ThreadPoolExecutor, calls: Sequence[Callable[[], None]]) -> None:
    """Run all, and raise what the first one raised after the last one is done."""
    done = [pool.submit(call) for call in calls]
    wait(done)
    for one in done:
        one.result()


class WalkKernel(Owned):
    """Some placements of a plan, for one thread at a time; a context manager.

    A twin of another kernel uses its blocks, must be freed before it, and knows no other devices.
    """

    free_function = "tk_simulation_free"

    def __init__(
        self, plan: Walk, chosen: NDArray[np.int64], *, twin: WalkKernel | None = None
    ) -> None:
        self._native = _functions()
        self._plan = plan  # the kernel reads its arrays until it is freed
        self._scenarios = plan.scenarios[chosen]
        self.chosen = chosen
        self._variants = 1
        super().__init__()
        status = self._make(twin)
        if status:
            raise TracekitError(
                f"the placement model refuses {len(chosen)} placements: {os.strerror(-status)}"
            )

    def _make(self, twin: WalkKernel | None) -> int:
        place, count = self._scenarios.ctypes.data, len(self._scenarios)
        out = ctypes.byref(self._handle)
        if twin is not None:
            return int(self._native.tk_simulation_twin(twin._handle, place, count, out))
        plan = self._plan
        others = (_Prices * len(plan.others))(*map(_native_prices, plan.others))
        self._variants += len(others)
        setup = _Setup(
            native_setup(plan.setup),
            native_disk(plan.disk),
            (_I64 * 2)(*plan.flush_ps),
            place,
            count,
            int(plan.is_open),
            (ctypes.c_uint32 * 2)(*plan.servers),
            ctypes.addressof(others),
            len(others),
        )
        return int(self._native.tk_simulation_new(ctypes.byref(setup), out))

    def add(self, rows: Rows) -> None:
        """Charge the next requests."""
        status = add_rows(self._native.tk_simulation_add, self._handle, rows=rows)
        check_status(status, self._read(None).placement)

    def finish(self) -> None:
        """Charge what is still queued."""
        check_status(self._native.tk_simulation_finish(self._handle), self._read(None).placement)

    def answers_ps(self) -> tuple[int, list[list[int]]]:
        """Return the number of responses, and by devices the sums of response times of `chosen`."""
        totals, results = self.results()
        sums = [whole(result.answer_ps) for result in results]
        count = len(self.chosen)
        return totals.responses, [sums[at : at + count] for at in range(0, len(sums), count)]

    def results(self) -> tuple[_Totals, ctypes.Array[_Walked]]:
        """Return what was counted, and results for each of `chosen`, by devices."""
        results = (_Walked * (len(self._scenarios) * self._variants))()
        return self._read(ctypes.addressof(results)), results

    def _read(self, results: int | None) -> _Totals:
        totals = _Totals()
        self._native.tk_simulation_read(self._handle, ctypes.byref(totals), results)
        return totals


def _together(kernels: Sequence[WalkKernel], count: int) -> Walked:
    """Return the results of all kernels by scenario; what they count is the same."""
    found: list[_Walked] = [_Walked()] * count
    for kernel in kernels:
        totals, results = kernel.results()
        for index, result in zip(kernel.chosen.tolist(), results, strict=True):
            found[index] = result
    return Walked(
        service_ps=[result.service_ps for result in found],
        makespan_ps=[result.makespan_ps for result in found],
        answer_ps=[whole(result.answer_ps) for result in found],
        role_service_ps=tuple(totals.role_service_ps),
        role_answer_ps=tuple(whole(wide) for wide in totals.role_answer_ps),
        totals=totals_of(totals.placement),
        responses=totals.responses,
        undated=totals.undated,
        beyond=totals.beyond,
        span_ps=totals.span_ps,
    )


def _native_prices(prices: Prices) -> _Prices:
    return _Prices(
        native_cost(prices.base),
        native_cost(prices.nvm),
        native_disk(prices.disk),
        (_I64 * 2)(*prices.flush_ps),
    )
