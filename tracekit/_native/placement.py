"""Placements on NVM and caches: placement.h, event_simulation.h, ledger.h and cache_rivals.h."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracekit._native.library import (
    Owned,
    array,
    call,
    check,
    columns_for,
    constant,
    dtype_of,
    enumerators,
    plain,
    struct,
)
from tracekit.errors import InputError

ROLE_COUNT = constant("TK_ROLES")
PLACED_ROLES = constant("TK_ROLES_PLACED")
CURVES = constant("TK_CURVES")
HOTTEST = constant("TK_ORDER_HOTTEST")
START = constant("TK_ORDER_START")
OPTIMAL = constant("TK_ORDER_OPTIMAL")
READ = constant("TK_ACTION_READ")
WRITE = constant("TK_ACTION_WRITE")
FLUSH = constant("TK_ACTION_FLUSH")
UNCHARGED = constant("TK_ACTION_UNCHARGED")
PLACED_NONE = constant("TK_PLACED_NONE")
PLACED_SOME = constant("TK_PLACED_SOME")
PLACED_ALL = constant("TK_PLACED_ALL")
LEDGERS = constant("TK_LEDGERS")
BLOCK = dtype_of("struct tk_placement_block")
DEVICE = dtype_of("struct tk_placement_device")
SCENARIO = dtype_of("struct tk_scenario")
WIDE = dtype_of("struct tk_wide")
SIMULATED = dtype_of("struct tk_simulated")
RIVALS = tuple(name.replace("_", "-") for name in enumerators("tk_rival_kind", "TK_RIVAL_")[:-1])
RIVAL_MODES = enumerators("tk_rival_mode", "TK_RIVAL_")[:-1]
REASONS = {
    -errno.EINVAL: "has an operation, role or device that is not known",
    -errno.EOVERFLOW: "brings the modelled time above 106 days",
    -errno.EEXIST: "appears twice",
}


FlushCosts = tuple[tuple[int, int], tuple[int, int]]
"""Of base and NVM: with nothing to flush, and with something, as flush_cost.h has it."""


@dataclass(frozen=True)
class Cost:
    """What a device costs, in picoseconds; pairs are of reads and writes."""

    latency_ps: tuple[int, int]
    sequential_ps: tuple[int, int]
    sector_ps: tuple[int, int]
    fua_ps: int


@dataclass(frozen=True)
class Disk:
    """A base device whose head moves: times in ps, distances in sectors; see spindle.h."""

    track_ps: float
    root_ps: float
    linear_ps: float
    unknown_ps: int
    half_turn_ps: int
    settle_ps: tuple[int, int]
    track_sectors: int
    capacity_sectors: int


@dataclass(frozen=True)
class Setup:
    """What the kernel needs to know before the requests; arrays as described in placement.h."""

    keys: NDArray[np.int64]
    blocks: NDArray[np.void]
    devices: NDArray[np.void]
    point_count: int
    is_issued: bool
    base: Cost
    nvm: Cost


@dataclass(frozen=True)
class Rows:
    """Columns of requests in queue order: contiguous arrays of equal length, -1 where unknown."""

    request_id: NDArray[np.int64]
    queue_ns: NDArray[np.int64]
    issue_ns: NDArray[np.int64]
    merged_into: NDArray[np.int64]
    sector: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    device: NDArray[np.int32]
    action: NDArray[np.uint8]
    role: NDArray[np.uint8]
    is_fua: NDArray[np.uint8]
    is_preflush: NDArray[np.uint8]
    is_meta: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class Totals:
    """What was charged, by role, and what was not; see placement.h."""

    base_ps: tuple[int, ...]
    requests: tuple[int, ...]
    flushes: tuple[int, ...]
    uncharged: int
    not_issued: int
    orphan_merges: int
    impossible: int
    missing_blocks: int


class RequestKernel(Owned):
    """What goes once through the requests of a trace."""

    failure = "the placement model failed"
    result_count = 1
    """How many results the kernel gives beside its totals."""

    def add(self, rows: Rows) -> None:
        """Take the next requests; raise InputError that names a request that makes no sense."""
        columns = struct("tk_placement_rows", **vars(rows), count=len(rows.request_id))
        self._check_rows(self._call("add", columns))

    def _check_rows(self, status: int) -> None:
        """Raise InputError that names the request which the kernel could not take."""
        if not status:
            return
        bad_id = self._totals()["bad_request_id"]
        if status not in REASONS or bad_id < 0:
            self._check(status)
        raise InputError(f"request {bad_id} {REASONS[status]}", hint="parse the capture again")

    def _totals(self, *results: Any) -> dict[str, Any]:
        """Return the fields of `struct tk_placement_totals`; fine after a failure.

        `results` take what the kernel found beside them.
        """
        totals = struct("tk_placement_totals")
        self._call("read", totals, *(results or (None,) * self.result_count))
        return dict(plain(totals))


class PlacementKernel(RequestKernel):
    """One pass over a trace."""

    kind = "tk_placement"

    def __init__(self, setup: Setup) -> None:
        self._setup = struct("tk_placement_setup", **_fields(setup))
        self._point_count = setup.point_count
        what = f"{len(setup.keys)} blocks and {setup.point_count} capacities"
        super().__init__(self._setup, refusal=f"the placement model refuses {what}")

    def finish(self) -> tuple[Totals, NDArray[np.int64]]:
        """Return the totals and the change of time in ps at each capacity point, by curve."""
        self._check_rows(self._call("finish"))
        steps_ps = np.zeros((CURVES, self._point_count), np.int64)
        return _totals_of(self._totals(steps_ps)), steps_ps


@dataclass(frozen=True)
class Prices:
    """Devices, base and NVM: costs, the base device's head if it has one, and flushes in ps."""

    base: Cost
    nvm: Cost
    disk: Disk | None
    flush_ps: FlushCosts


@dataclass(frozen=True)
class SimulationSetup:
    """What a simulation needs beyond `setup`; pairs are of base and NVM."""

    setup: Setup
    disk: Disk | None
    flush_ps: FlushCosts
    scenarios: NDArray[np.void]  # SCENARIO, ascending by order, the first with nothing on NVM
    is_open: bool
    servers: tuple[int, int]
    others: tuple[Prices, ...] = ()  # devices on which the same is simulated at the same time


@dataclass(frozen=True)
class Simulated:
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


class SimulationKernel(RequestKernel):
    """Some placements of a plan.

    A twin of another kernel uses its blocks, must be freed before it, and knows no other devices.
    """

    kind = "tk_simulation"

    def __init__(
        self,
        plan: SimulationSetup,
        chosen: NDArray[np.int64],
        *,
        twin: SimulationKernel | None = None,
    ) -> None:
        self.chosen = chosen
        self._scenarios = plan.scenarios[chosen]
        self._variants = 1 if twin else 1 + len(plan.others)
        refusal = f"the placement model refuses {len(chosen)} placements"
        if twin:
            self._twin = twin
            self.made_by = "twin"
            super().__init__(twin._handle, self._scenarios, len(chosen), refusal=refusal)
            return
        self._setup = struct(
            "tk_simulation_setup",
            placement=_fields(plan.setup),
            disk=plan.disk or {},
            flush_ps=plan.flush_ps,
            scenarios=self._scenarios,
            scenario_count=len(chosen),
            is_open=plan.is_open,
            servers=plan.servers,
            others=[vars(prices) | {"disk": prices.disk or {}} for prices in plan.others],
            other_count=len(plan.others),
        )
        super().__init__(self._setup, refusal=refusal)

    def finish(self) -> None:
        """Charge what is still queued."""
        self._check_rows(self._call("finish"))

    def answers_ps(self) -> tuple[int, list[list[int]]]:
        """Return the number of responses, and by devices the sums of response times of `chosen`."""
        totals, results = self.results()
        sums, count = _whole(results["answer_ps"]), len(self.chosen)
        return totals["responses"], [sums[at : at + count] for at in range(0, len(sums), count)]

    def results(self) -> tuple[dict[str, Any], NDArray[np.void]]:
        """Return the totals of the simulation, and SIMULATED of `chosen`, by devices."""
        totals = struct("tk_simulation_totals")
        results = np.zeros(len(self.chosen) * self._variants, SIMULATED)
        self._call("read", totals, results)
        return plain(totals), results

    def _totals(self, *_results: Any) -> dict[str, Any]:
        totals = struct("tk_simulation_totals")
        self._call("read", totals, None)
        return dict(plain(totals.placement))


def simulate(
    plan: SimulationSetup,
    batches: Iterable[Rows],
    *,
    groups: Sequence[NDArray[np.int64]] | None = None,
) -> Simulated:
    """Simulate all scenarios of a trace; InputError names a request that makes no sense.

    Each group of scenarios (ascending indexes, of which the first is 0, the base alone) has a
    thread; together they are all. None: one for all.
    """
    parts = groups or [np.arange(len(plan.scenarios))]
    with ExitStack() as stack:
        kernels = [stack.enter_context(SimulationKernel(plan, parts[0]))]
        kernels += [
            stack.enter_context(SimulationKernel(plan, part, twin=kernels[0])) for part in parts[1:]
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


def _together(kernels: Sequence[SimulationKernel], count: int) -> Simulated:
    """Return the results of all kernels by scenario; what they count is the same."""
    found = np.zeros(count, SIMULATED)
    for kernel in kernels:
        totals, found[kernel.chosen] = kernel.results()
    return Simulated(
        service_ps=found["service_ps"].tolist(),
        makespan_ps=found["makespan_ps"].tolist(),
        answer_ps=_whole(found["answer_ps"]),
        role_answer_ps=tuple(wide["high"] << 64 | wide["low"] for wide in totals["role_answer_ps"]),
        totals=_totals_of(totals["placement"]),
        **{
            name: totals[name]
            for name in ("role_service_ps", "responses", "undated", "beyond", "span_ps")
        },
    )


@dataclass(frozen=True)
class LedgerSetup:
    """A placement: what the kernel needs to know before the requests; see ledger.h."""

    keys: NDArray[np.int64]
    on_nvm: NDArray[np.uint8]  # by block: 1 + the role whose requests find it on NVM, 0: none
    devices: NDArray[np.void]
    placed: tuple[int, ...]  # by role: PLACED_*
    is_issued: bool
    disks: tuple[Disk, ...]  # whose positions are summed up


@dataclass(frozen=True)
class Counts:
    """Parts of requests by device (base, NVM) and operation; flushes by device and find."""

    apart: tuple[tuple[int, int], tuple[int, int]]
    joined: tuple[tuple[int, int], tuple[int, int]]
    sectors: tuple[tuple[int, int], tuple[int, int]]
    fua: tuple[int, int]
    flushes: tuple[tuple[int, int], tuple[int, int]]
    position_ps: tuple[int, ...]  # by disk

    @property
    def is_empty(self) -> bool:
        """Whether nothing was charged."""
        return not any(sum(self.apart + self.joined + self.flushes, ()))


class Ledger(RequestKernel):
    """Counts a trace, or one window after the other."""

    kind = "tk_ledger"
    result_count = 2

    def __init__(self, placement: LedgerSetup) -> None:
        self._disk_count = len(placement.disks)
        self._setup = struct(
            "tk_ledger_setup",
            keys=placement.keys,
            on_nvm=placement.on_nvm,
            devices=placement.devices,
            disks=placement.disks,
            block_count=len(placement.keys),
            device_count=len(placement.devices),
            disk_count=self._disk_count,
            as_issued=placement.is_issued,
            placed=placement.placed,
        )
        refusal = f"the placement model refuses {len(placement.keys)} blocks"
        super().__init__(self._setup, refusal=refusal)

    def finish(self) -> tuple[Counts, Counts]:
        """Return the counts of the base device alone and of the placement, and begin anew."""
        self._check_rows(self._call("finish"))
        counts = array("struct tk_ledger_counts", LEDGERS)
        sums = np.zeros((LEDGERS, self._disk_count), WIDE)
        self._call("read", struct("tk_placement_totals"), counts, sums)
        self._call("restart")
        alone, placed = (
            Counts(**fields, position_ps=tuple(_whole(row)))
            for fields, row in zip(plain(counts), sums, strict=True)
        )
        return alone, placed


class Rival(RequestKernel):
    """One pass of a trace through a cache."""

    kind = "tk_rival"

    def __init__(self, kind: str, mode: str, **fields: Any) -> None:
        """Make one of RIVALS with one of RIVAL_MODES; `fields` are of `tk_rival_setup`."""
        self._setup = struct(
            "tk_rival_setup",
            kind=RIVALS.index(kind),
            mode=RIVAL_MODES.index(mode),
            block_count=len(fields["keys"]),
            device_count=len(fields["devices"]),
            **fields,
        )
        what = f"{kind} of {fields['capacity']} blocks"
        super().__init__(self._setup, refusal=f"the model of caches refuses {what}")

    def finish(self) -> dict[str, Any]:
        """Charge what is still queued; return the fields of `tk_rival_counts`."""
        self._check_rows(self._call("finish"))
        counts = struct("tk_rival_counts")
        self._call("read", struct("tk_placement_totals"), counts)
        return dict(plain(counts))


def _fields(setup: Setup) -> dict[str, Any]:
    """Return the fields of `struct tk_placement_setup`."""
    return {
        "keys": setup.keys,
        "blocks": setup.blocks,
        "devices": setup.devices,
        "block_count": len(setup.keys),
        "device_count": len(setup.devices),
        "point_count": setup.point_count,
        "as_issued": setup.is_issued,
        "base": setup.base,
        "nvm": setup.nvm,
    }


def _totals_of(fields: dict[str, Any]) -> Totals:
    return Totals(**{name: value for name, value in fields.items() if name != "bad_request_id"})


def _whole(sums: NDArray[np.void]) -> list[int]:
    """Return sums of more than 64 bits (WIDE)."""
    return [high << 64 | low for low, high in sums.tolist()]


@dataclass(frozen=True)
class ResponseJobs:
    """Requests by traced arrival; a part that is not there takes -1 ps."""

    arrival_ns: NDArray[np.int64]
    done_ns: NDArray[np.int64]
    stream: NDArray[Any]
    device: NDArray[Any]
    base_ps: NDArray[np.int64]
    nvm_ps: NDArray[np.int64]


def response_times(
    jobs: ResponseJobs, *, servers: tuple[int, int], is_closed: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how long each takes, and when it is done, in ps; InputError beyond 26 days."""
    count = len(jobs.arrival_ns)
    setup = struct(
        "tk_response_setup",
        streams=int(jobs.stream.max(initial=0)) + 1,
        devices=int(jobs.device.max(initial=0)) + 1,
        servers=servers,
        is_closed=is_closed,
    )
    columns = struct("tk_response_jobs", **columns_for("tk_response_jobs", jobs), count=count)
    response_ps, done_ps = np.zeros((2, count), np.int64)
    status = call("tk_response_times", setup, columns, response_ps, done_ps)
    if status == -errno.EOVERFLOW:
        raise InputError("the trace lasts longer than response times are modelled for, 26 days")
    check(status, "response times could not be modelled")
    return response_ps, done_ps
