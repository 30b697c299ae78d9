"""What a trace writes, and what each placement's writes do to the NVM: wear and price."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracekit import query
from tracekit.errors import InputError, UsageError
from tracekit.profiles import Profile, choose_profile, load_profiles
from tracekit.replay.placement import ANSWER, PLACED_BYTES, choose_answer, read_recommendation
from tracekit.schema import BLOCK_BYTES, ROLES
from tracekit.schema.endurance import ENDURANCE
from tracekit.simulate.block_orders import TouchedBlocks, blocks_in_order, read_blocks
from tracekit.simulate.endurance_words import headline
from tracekit.simulate.wear import Bearer, Wear, a_day, lifetimes, read_writes, wear_of
from tracekit.simulate.what_if import WhatIf, read_what_if
from tracekit.store import TraceFolder, command_line, write_json, write_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TABLE = "simulations/endurance"
RESULT = "simulations/endurance.json"
GB = 10**9
STEPS = 2
LARGEST_AMPLIFICATION = 1000.0
Step = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Options:
    """Which answer's capacity, on which device; an empty device is the recommendation's NVM."""

    placement: str = ANSWER
    device: str = ""
    profiles: Path | None = None
    what_if: Path | None = None
    write_amplification: float = 1.0

    def __post_init__(self) -> None:
        """Check the amplification."""
        if not 1 <= self.write_amplification <= LARGEST_AMPLIFICATION:
            raise UsageError(
                f"--write-amplification is {self.write_amplification:g}",
                hint=f"from 1 to {LARGEST_AMPLIFICATION:g} are possible",
            )


@dataclass(frozen=True)
class _Nvm:
    """The device asked about; None is not known."""

    name: str
    endurance_cycles: float | None
    price_per_gb: float | None
    currency: str


@dataclass(frozen=True)
class _Trace:
    """Every touched page with its writes."""

    touched: TouchedBlocks
    writes: NDArray[np.int64]
    duration_ns: int


def simulate_endurance(
    folder: TraceFolder, options: Options, *, on_step: Step | None = None
) -> dict[str, Any]:
    """Write simulations/endurance and its JSON; return the latter's content."""
    advice = read_recommendation(folder)
    answer = choose_answer(advice, options.placement)
    nvm = _nvm(advice, options)
    bearer = Bearer(answer["capacity_bytes"], nvm.endurance_cycles, options.write_amplification)
    blocks = folder.require("blocks", made_by="classify")
    placements = _placements(folder, answer["capacity_bytes"], advice["coverage"])
    tell = on_step or (lambda _name, _done, _total: None)
    tell("writes of each page", 0, STEPS)
    touched = read_blocks(blocks)
    duration_ns = int(folder.info.get("clock", {}).get("duration_ns") or 0)
    trace = _Trace(touched, read_writes(blocks, touched), duration_ns)
    rows = list(_role_rows(folder, trace))
    tell("placements", 1, STEPS)
    for row in placements:
        wear = wear_of(trace.writes[_placed(touched, row)])
        rows.append(_placement_row(row, wear, nvm, bearer=bearer, duration_ns=duration_ns))
    result = _result(answer, nvm, bearer, duration_ns=duration_ns)
    result["headline"] = headline(result, rows)
    (folder.path / "simulations").mkdir(exist_ok=True)
    write_table(folder.table(TABLE), _table(rows))
    write_json(folder.path / RESULT, result)
    return result


def _nvm(advice: Mapping[str, Any], options: Options) -> _Nvm:
    """Return the device; one that was recommended is as the recommendation had it."""
    told = Profile(**advice["profiles"][1])
    profiles = load_profiles(options.profiles)
    if options.profiles is None or told.name not in profiles:
        profiles = {**profiles, told.name: told}
    what_if = read_what_if(options.what_if, profiles)
    name = options.device or told.name
    own = what_if.devices.get(name)
    if own is not None:
        cycles, price = what_if.endurance.get(name), own.price_per_gb
    else:
        profile = choose_profile(profiles, name)
        cycles = what_if.endurance.get(name, profile.endurance_cycles)
        price = profile.price_per_gb
    return _Nvm(name, cycles, _price(name, price, what_if), what_if.currency)


def _price(name: str, price: float, what_if: WhatIf) -> float | None:
    """Return the price of a gigabyte; a profile's relative one is none in a currency."""
    if what_if.currency and name not in what_if.prices and name not in what_if.devices:
        return None
    return what_if.prices.get(name, price)


def _placements(folder: TraceFolder, capacity_bytes: int, coverage: str) -> list[dict[str, Any]]:
    """Return what `recommend` would put on NVM of this capacity, a row a placement."""
    import pyarrow.parquet as pq

    file = folder.require("simulations/placement", made_by="recommend")
    rows: list[dict[str, Any]] = pq.read_table(
        file, filters=[("capacity_bytes", "=", capacity_bytes), ("placement", "!=", "base")]
    ).to_pylist()
    found = [row for row in rows if row["placement"] == "optimal" or row["coverage"] == coverage]
    if capacity_bytes and not found:
        raise InputError(
            f"{file} has no placement of {capacity_bytes} bytes",
            hint=f"run: {command_line('recommend', folder.path)}",
        )
    return found if capacity_bytes else []


def _placed(touched: TouchedBlocks, row: Mapping[str, Any]) -> NDArray[np.int64]:
    """Return the positions of the blocks that a placement has on NVM."""
    import numpy as np

    if row["placement"] == "optimal":
        coldness = np.uint32(0xFFFFFFFF) - touched.accesses
        return np.argsort(coldness, kind="stable")[: row["capacity_bytes"] // BLOCK_BYTES]
    parts = [
        blocks_in_order(touched, role, coverage=row["coverage"])[: row[key] // BLOCK_BYTES]
        for role, key in PLACED_BYTES.items()
    ]
    return np.concatenate(parts)


def _role_rows(folder: TraceFolder, trace: _Trace) -> Iterator[dict[str, Any]]:
    with query.connect(folder) as connection:
        totals = query.run(connection, "traffic/totals").to_pylist()
    for row in totals:
        wear = wear_of(trace.writes[trace.touched.role == ROLES.index(row["role"])])
        yield {
            "kind": "role",
            "name": row["role"],
            "written_bytes": row["write_bytes"],
            "bytes_a_day": a_day(row["write_bytes"], trace.duration_ns),
            **asdict(wear),
        }


def _placement_row(
    row: Mapping[str, Any], wear: Wear, nvm: _Nvm, *, bearer: Bearer, duration_ns: int
) -> dict[str, Any]:
    ideal, unlevelled = lifetimes(wear, bearer, duration_ns=duration_ns)
    return {
        "kind": "placement",
        "name": row["placement"],
        "bytes_a_day": a_day(wear.page_writes * BLOCK_BYTES, duration_ns),
        **asdict(wear),
        "ideal_days": ideal,
        "unlevelled_days": unlevelled,
        "capacity_bytes": bearer.capacity_bytes,
        "price": _cost(nvm, bearer.capacity_bytes),
        "elapsed_ns": row["elapsed_ns"],
    }


def _cost(nvm: _Nvm, capacity_bytes: int) -> float | None:
    return None if nvm.price_per_gb is None else nvm.price_per_gb * capacity_bytes / GB


def _result(
    answer: Mapping[str, Any], nvm: _Nvm, bearer: Bearer, *, duration_ns: int
) -> dict[str, Any]:
    return {
        "placement": answer["placement"],
        "capacity_bytes": answer["capacity_bytes"],
        "device": nvm.name,
        "endurance_cycles": nvm.endurance_cycles,
        "write_amplification": bearer.write_amplification,
        "price_per_gb": nvm.price_per_gb,
        "currency": nvm.currency,
        "price": _cost(nvm, bearer.capacity_bytes),
        "duration_ns": duration_ns,
    }


def _table(rows: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    named = [{name: row.get(name) for name in ENDURANCE.names} for row in rows]
    return pa.Table.from_pylist(named, ENDURANCE)
