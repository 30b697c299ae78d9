"""What a trace writes, and what each placement's writes do to the NVM: wear and price."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tracekit import query
from tracekit.arrow import name_codes, numbers, read_columns
from tracekit.devices import Profile, choose_profile, load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.model.answer import ANSWER, PLACED_BYTES, choose_answer, read_recommendation
from tracekit.model.block_orders import TouchedBlocks, blocks_in_order, read_blocks
from tracekit.model.what_if import WhatIf, read_what_if
from tracekit.store import TraceFolder, command_line, write_json, write_table
from tracekit.tables import ENDURANCE, PLACEMENT_NAMES, ROLES
from tracekit.units import BLOCK_BYTES, DAY_NS, GB, format_duration, format_size

COLUMNS = ["device", "block", "writes"]
PERCENTILE = 99


@dataclass(frozen=True)
class Wear:
    """Writes of some pages; the factor and the percentile are None when none was written."""

    pages: int
    written_pages: int
    page_writes: int
    write_invalidation_factor: float | None
    writes_p99: int | None
    writes_max: int


@dataclass(frozen=True)
class Bearer:
    """What bears the writes: capacity, cycles of a cell, writes that one page write becomes."""

    capacity_bytes: int
    endurance_cycles: float | None
    write_amplification: float = 1.0


def read_writes(file: Path, touched: TouchedBlocks) -> NDArray[np.int64]:
    """Return the write requests of each block of `touched`, which was read from the same file."""
    writes = np.zeros(len(touched.keys), np.int64)
    for column in read_columns(file, COLUMNS):
        device = name_codes(column["device"], touched.device_names)
        start = touched.devices[device]
        keys = numbers(column["block"]) - start["first_block"] + start["first_key"]
        writes[np.searchsorted(touched.keys, keys)] = numbers(column["writes"])
    return writes


def wear_of(writes: NDArray[np.int64]) -> Wear:
    """Count the writes of pages, an entry a page.

    The factor is OCTF's write invalidation factor, how often what is written is written on
    average, by page and not by sector. The percentile is exact, by nearest rank.
    """
    written = writes[writes > 0]
    if not len(written):
        return Wear(len(writes), 0, 0, None, None, 0)
    total = int(written.sum())
    rank = -(-len(written) * PERCENTILE // 100) - 1
    p99 = int(np.partition(written, rank)[rank])
    factor = total / len(written)
    return Wear(len(writes), len(written), total, factor, p99, int(written.max()))


def a_day(amount: float, duration_ns: int) -> float | None:
    """Return what a trace of this duration does in 24 hours at its mean rate; None without one."""
    return amount / duration_ns * DAY_NS if duration_ns > 0 else None


def lifetimes(
    wear: Wear, bearer: Bearer, *, duration_ns: int
) -> tuple[float, float] | tuple[None, None]:
    """Return the days that the device lasts, with ideal wear levelling and with none.

    Ideal: cycles x capacity / (bytes a day x amplification), all cells wear alike. None: the page
    that is written most reaches its cycles. Real devices lie between. None where the cycles or the
    duration are not known or nothing is written.
    """
    worst_a_day = a_day(wear.writes_max * bearer.write_amplification, duration_ns)
    total_a_day = a_day(wear.page_writes * bearer.write_amplification, duration_ns)
    if bearer.endurance_cycles is None or not worst_a_day or not total_a_day:
        return None, None
    page_count = bearer.capacity_bytes / BLOCK_BYTES
    ideal = bearer.endurance_cycles * page_count / total_a_day
    return ideal, bearer.endurance_cycles / worst_a_day


DAYS_A_YEAR = 365.25


def headline(result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences on the trace's length, the writes, the lifetime and the price."""
    found = [*_length(result["duration_ns"]), *_writes(rows)]
    chosen = [row for row in rows if row["kind"] == "placement"]
    if not chosen:
        return [*found, "No NVM is recommended, so none wears."]
    if result["endurance_cycles"] is None:
        chosen = [row for row in chosen if row["name"] == result["placement"]]
    return [*found, *(_lifetime(result, row) for row in chosen), _endurance_words_price(result)]


def _length(duration_ns: int) -> list[str]:
    if not duration_ns:
        return ["The trace's duration is not known, so nothing is told by the day."]
    if duration_ns < DAY_NS:
        return [
            f"The trace lasts {format_duration(duration_ns)}: a day is {DAY_NS / duration_ns:,.1f}"
            " times that at the same rate, a guess unless the load is always like this."
        ]
    return []


def _writes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what the roles write."""
    told = [row for row in rows if row["kind"] == "role" and row["page_writes"]]
    return [
        f"{row['name']}: {format_size(row['written_bytes'])} written"
        + ("" if row["bytes_a_day"] is None else f", {format_size(row['bytes_a_day'])} a day")
        + f"; a written page {row['write_invalidation_factor']:.1f} times on average, 99 % of them"
        f" at most {row['writes_p99']:,}, one {row['writes_max']:,} times."
        for row in told
    ] or ["Nothing is written."]


def _lifetime(result: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    device = result["device"]
    start = (
        f"{format_size(result['capacity_bytes'])} of {device} for {PLACEMENT_NAMES[row['name']]}"
    )
    if result["endurance_cycles"] is None:
        return (
            f"{start}: the lifetime is not known, because {device} has no endurance_cycles; give"
            f" it in the profile or in a what-if's [endurance_cycles]."
        )
    if row["ideal_days"] is None:
        return f"{start}: no wear is told, because nothing is written or no duration is known."
    return (
        f"{start}, {result['endurance_cycles']:,.0f} writes a cell: lasts"
        f" {lasting(row['ideal_days'])} with ideal wear levelling and"
        f" {lasting(row['unlevelled_days'])} with none."
    )


def lasting(days: float) -> str:
    """Return a lifetime in years, or in days below one, in hours below one of these."""
    if days >= DAYS_A_YEAR:
        return f"{days / DAYS_A_YEAR:,.1f} years"
    return f"{days:,.1f} days" if days >= 1 else f"{days * 24:.3g} hours"


def _endurance_words_price(result: Mapping[str, Any]) -> str:
    size = format_size(result["capacity_bytes"])
    price, currency = result["price"], result["currency"]
    if price is None:
        return (
            f"The price of {size} of {result['device']} in {currency} is not known: add it to the"
            " what-if's [price_per_gb]."
        )
    if currency:
        return f"{size} of {result['device']} costs {price:,.4g} {currency}."
    return (
        f"{size} of {result['device']} costs what {price:,.4g} GB of hard disk would; for a price"
        " in money give a what-if with a currency."
    )


TABLE = "simulations/endurance"
RESULT = "simulations/endurance.json"
STEPS = 2
LARGEST_AMPLIFICATION = 1000.0
Step = Callable[[str, int, int], None]


@dataclass(frozen=True)
class EnduranceOptions:
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
    folder: TraceFolder, options: EnduranceOptions, *, on_step: Step | None = None
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
    duration_ns = folder.info.clock.duration_ns
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


def _nvm(advice: Mapping[str, Any], options: EnduranceOptions) -> _Nvm:
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
    named = [{name: row.get(name) for name in ENDURANCE.names} for row in rows]
    return pa.Table.from_pylist(named, ENDURANCE)
