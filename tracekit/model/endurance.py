"""What a trace writes, and what each placement's writes do to the NVM: wear and price."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs, to_builtins

from tracekit.arrow import Integers, name_codes, numbers, read_columns, regular_file
from tracekit.devices import ENDURANCE as ENDURANCE_KEYS
from tracekit.devices import Profile, choose_profile, load_profiles
from tracekit.errors import InputError, UsageError
from tracekit.metadata import Record
from tracekit.model.answer import (
    ANSWER,
    BY_UNITS,
    PLACED_BYTES,
    Answer,
    Recommendation,
    choose_answer,
    placement_name,
    read_recommendation,
    resolved,
)
from tracekit.model.block_orders import TouchedBlocks, blocks_in_order, hottest_first, read_blocks
from tracekit.model.tier_mixes import Tier
from tracekit.model.unit_answer import read_units
from tracekit.model.what_if import WhatIf, read_what_if
from tracekit.store import TraceFolder, command_line, write_results
from tracekit.tables import ENDURANCE, MOST_ACCESSED, OLD_PLACEMENTS, ROLES
from tracekit.units import BLOCK_BYTES, DAY_NS, GB, format_duration, format_size

COLUMNS = ["device", "block", "writes"]
PERCENTILE = 99
TABLE = "simulations/endurance"
RESULT = "simulations/endurance.json"
STEPS = 2
LARGEST_AMPLIFICATION = 1000.0
DAYS_A_YEAR = 365.25


class Wear(Record):
    """Writes of some pages; the factor and the percentile are None when nothing was written."""

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


def read_writes(file: Path, touched: TouchedBlocks) -> Integers:
    """Return the write requests of each block of `touched`, which was read from the same file."""
    writes = np.zeros(len(touched.keys), np.int64)
    for column in read_columns(file, COLUMNS):
        device = name_codes(column["device"], touched.device_names)
        start = touched.devices[device]
        keys = numbers(column["block"]) - start["first_block"] + start["first_key"]
        writes[np.searchsorted(touched.keys, keys)] = numbers(column["writes"])
    return writes


def wear_of(writes: Integers) -> Wear:
    """Count the writes of pages, an entry a page.

    The factor is OCTF's write invalidation factor, how often what is written is written on
    average, by page and not by sector. The percentile is exact, by nearest rank.
    """
    written = writes[writes > 0]
    if not len(written):
        return Wear(len(writes), 0, 0, None, None, 0)
    total = int(written.sum())
    p99 = int(np.percentile(written, PERCENTILE, method="inverted_cdf"))
    return Wear(len(writes), len(written), total, total / len(written), p99, int(written.max()))


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


class WearRow(Wear, kw_only=True):
    """A row of the table: what a role writes, or what a placement's writes do to the NVM."""

    kind: str
    """role or placement"""
    name: str
    written_bytes: int | None = None
    bytes_a_day: float | None = None
    ideal_days: float | None = None
    unlevelled_days: float | None = None
    capacity_bytes: int | None = None
    price: float | None = None
    elapsed_ns: int | None = None


class Endurance(Record):
    """The content of simulations/endurance.json; None is not known."""

    placement: str
    capacity_bytes: int
    device: str
    endurance_cycles: float | None
    write_amplification: float
    price_per_gb: float | None
    currency: str
    price: float | None
    duration_ns: int
    headline: list[str]
    rated_cycles: float | None = None
    """Writes of the whole device within its warranty, as its maker states them."""
    device_bytes: int | None = None
    """Of the devices that hold the capacity, over all of which the writes are spread."""
    warranty_years: float | None = None
    assumed: list[str] = msgspec.field(default_factory=list)
    """Which of endurance and price no source gives."""

    @property
    def bears(self) -> bool:
        """Whether it is known what the device bears."""
        return self.endurance_cycles is not None or self.rated_cycles is not None


def headline(result: Endurance, rows: Sequence[WearRow]) -> list[str]:
    """Return sentences on the trace's length, the writes, the lifetime and the price."""
    found, duration_ns = [], result.duration_ns
    if not duration_ns:
        found.append("The trace's duration is not known, so nothing is reported by the day.")
    elif duration_ns < DAY_NS:
        found.append(
            f"The trace lasts {format_duration(duration_ns)}: a day is {DAY_NS / duration_ns:,.1f}"
            " times that at the same rate, a guess unless the load is always like this."
        )
    written = [_written(row) for row in rows if row.kind == "role" and row.page_writes]
    found += written or ["Nothing is written."]
    chosen = [row for row in rows if row.kind == "placement"]
    if not chosen:
        return [*found, "No NVM is recommended, so none wears."]
    if result.assumed:
        names = " and ".join(result.assumed)
        found.append(f"Assumed, with no source: the {names} of {result.device}.")
    if not result.bears:
        chosen = [row for row in chosen if row.name == result.placement]
    return [*found, *(_lifetime(result, row) for row in chosen), _price_words(result)]


def _written(row: WearRow) -> str:
    a_day = "" if row.bytes_a_day is None else f", {format_size(row.bytes_a_day)} a day"
    return (
        f"{row.name}: {format_size(row.written_bytes or 0)} written{a_day}; a written page"
        f" {row.write_invalidation_factor:.1f} times on average, 99% of them at most"
        f" {row.writes_p99:,}, one {row.writes_max:,} times."
    )


def _lifetime(result: Endurance, row: WearRow) -> str:
    device = result.device
    start = f"{format_size(result.capacity_bytes)} of {device} for {placement_name(row.name)}"
    if not result.bears:
        return (
            f"{start}: the lifetime is not known, because {device} has no endurance_cycles; give"
            f" it in the profile or in a what-if's [endurance_cycles]."
        )
    if row.ideal_days is None:
        reason = "no duration is known" if row.page_writes else "nothing is written to it"
        return f"{start}: the wear is not known, because {reason}."
    if result.endurance_cycles is None or row.unlevelled_days is None:
        return _rated(result, row.ideal_days, start)
    return (
        f"{start}, {result.endurance_cycles:,.0f} writes a cell: lasts"
        f" {lasting(row.ideal_days)} with ideal wear levelling and"
        f" {lasting(row.unlevelled_days)} with none."
    )


def _rated(result: Endurance, days: float, start: str) -> str:
    """Return how long the maker's rating lasts, and whether that is longer than the warranty."""
    size_bytes = result.device_bytes or result.capacity_bytes
    terabytes = (result.rated_cycles or 0) * size_bytes / 1e12
    words = (
        f"{start}, rated for {terabytes:,.0f} TB written to {format_size(size_bytes)}: lasts"
        f" {lasting(days)}"
    )
    years = result.warranty_years
    if years is not None and days < years * DAYS_A_YEAR:
        return f"{words}, within its warranty of {years:g} years: do not buy it for this."
    return f"{words}."


def lasting(days: float) -> str:
    """Return a lifetime in years, or in days below one, in hours below one of these."""
    if days >= DAYS_A_YEAR:
        return f"{days / DAYS_A_YEAR:,.1f} years"
    return f"{days:,.1f} days" if days >= 1 else f"{days * 24:.3g} hours"


def _price_words(result: Endurance) -> str:
    device, price, currency = result.device, result.price, result.currency
    size = format_size(result.capacity_bytes)
    if price is None:
        return (
            f"The price of {size} of {device} in {currency} is not known: add it to the what-if's"
            " [price_per_gb]."
        )
    if currency:
        return f"{size} of {device} costs {price:,.4g} {currency}."
    return (
        f"{size} of {device} costs what {price:,.4g} GB of hard disk would; for a price in money"
        " give a what-if with a currency."
    )


def simulate_endurance(
    folder: TraceFolder, options: EnduranceOptions, *, on_step: Step = lambda *_: None
) -> Endurance:
    """Write simulations/endurance and its JSON; return the latter's content."""
    advice = read_recommendation(folder)
    result = _device(folder, advice, options)
    placements = _placements(folder, result.capacity_bytes, advice.coverage)
    if result.placement == BY_UNITS:
        placements = [row for row in placements if row["placement"] == MOST_ACCESSED]
        placements.insert(0, _of_units(advice))
    blocks = folder.require("blocks", made_by="classify")
    on_step("writes of each page", 0, STEPS)
    touched = read_blocks(blocks)
    writes = read_writes(blocks, touched)
    from tracekit import query

    with query.connect(folder) as connection:
        roles = query.run(connection, "traffic/totals").to_pylist()
    rows = [
        _row(
            "role",
            row["role"],
            writes[touched.role == ROLES.index(row["role"])],
            written_bytes=row["write_bytes"],
            bytes_a_day=a_day(row["write_bytes"], result.duration_ns),
        )
        for row in roles
    ]
    on_step("placements", 1, STEPS)
    for row in placements:
        is_units = row["placement"] == BY_UNITS
        placed = np.flatnonzero(read_units(folder, touched)) if is_units else _placed(touched, row)
        rows.append(_placement_row(result, row, writes[placed]))
    result.headline = headline(result, rows)
    table = pa.Table.from_pylist([to_builtins(row) for row in rows], ENDURANCE)
    write_results(folder, RESULT, result=result, tables={TABLE: table})
    return result


def _of_units(advice: Recommendation) -> dict[str, Any]:
    """Return the answer by whole units as a row of the placements."""
    units = advice.units
    return {"placement": BY_UNITS, "elapsed_ns": None if units is None else units.elapsed_ns}


def _row(kind: str, name: str, writes: Integers, **values: Any) -> WearRow:
    return WearRow(kind=kind, name=name, **structs.asdict(wear_of(writes)), **values)


def _placement_row(result: Endurance, row: Mapping[str, Any], writes: Integers) -> WearRow:
    """Return the wear of the NVM by the writes to the blocks that a placement has there."""
    found = _row("placement", row["placement"], writes, elapsed_ns=row["elapsed_ns"])
    bearer = Bearer(
        result.device_bytes or result.capacity_bytes,
        result.endurance_cycles or result.rated_cycles,
        result.write_amplification,
    )
    ideal, unlevelled = lifetimes(found, bearer, duration_ns=result.duration_ns)
    if result.endurance_cycles is None:
        unlevelled = None  # a rating is of a device that levels
    found.ideal_days, found.unlevelled_days = ideal, unlevelled
    found.bytes_a_day = a_day(found.page_writes * BLOCK_BYTES, result.duration_ns)
    found.capacity_bytes, found.price = result.capacity_bytes, result.price
    return found


def _device(folder: TraceFolder, advice: Recommendation, options: EnduranceOptions) -> Endurance:
    """Return what is known of the device; one that was recommended is as it was then."""
    answer = choose_answer(advice, options.placement)
    recommended = advice.profiles[1]
    profiles = load_profiles(options.profiles)
    if options.profiles is None or recommended.name not in profiles:
        profiles = {**profiles, recommended.name: recommended}
    what_if = read_what_if(options.what_if, profiles)
    name = options.device or recommended.name
    device = what_if.devices.get(name) or choose_profile(profiles, name)
    cycles = None if isinstance(device, Tier) else device.endurance_cycles
    cycles = what_if.endurance.get(name, cycles)
    rating = {} if cycles is not None or isinstance(device, Tier) else _rating(device, answer)
    price: float | None = what_if.prices.get(name, device.price_per_gb)
    # A profile's relative price has no currency.
    if what_if.currency and name not in what_if.prices and name not in what_if.devices:
        price = None
    return Endurance(
        placement=BY_UNITS if resolved(advice, options.placement) == BY_UNITS else answer.placement,
        capacity_bytes=answer.capacity_bytes,
        device=name,
        endurance_cycles=cycles,
        write_amplification=options.write_amplification,
        price_per_gb=price,
        currency=what_if.currency,
        price=None if price is None else price * answer.capacity_bytes / GB,
        duration_ns=folder.info.clock.duration_ns,
        headline=[],
        assumed=[] if isinstance(device, Tier) else _assumed(device, what_if),
        **rating,
    )


def _assumed(device: Profile, what_if: WhatIf) -> list[str]:
    """Return what of a profile no source gives, unless the user gave it."""
    endurance = device.assumes(ENDURANCE_KEYS) and device.name not in what_if.endurance
    price = device.assumes(["price_per_gb"]) and device.name not in what_if.prices
    return ["endurance"] * endurance + ["price"] * price


def _rating(device: Profile, answer: Answer) -> dict[str, Any]:
    """Return what the maker states of as many devices as hold the answer's capacity."""
    if device.rated_cycles is None:
        return {}
    one_bytes = round((device.capacity_gb or 0) * GB)
    count = -(-answer.capacity_bytes // one_bytes) if one_bytes else 0
    return {
        "rated_cycles": device.rated_cycles,
        "device_bytes": count * one_bytes or answer.capacity_bytes,
        "warranty_years": device.warranty_years,
    }


def _placements(folder: TraceFolder, capacity_bytes: int, coverage: str) -> list[dict[str, Any]]:
    """Return what `recommend` would put on NVM of this capacity, a row a placement."""
    file = folder.require("simulations/placement", made_by="recommend")
    rows: list[dict[str, Any]] = pq.read_table(
        regular_file(file),
        filters=[("capacity_bytes", "=", capacity_bytes), ("placement", "!=", "base")],
    ).to_pylist()
    for row in rows:
        row["placement"] = OLD_PLACEMENTS.get(row["placement"], row["placement"])
    found = [
        row for row in rows if row["placement"] == MOST_ACCESSED or row["coverage"] == coverage
    ]
    if capacity_bytes and not found:
        raise InputError(
            f"{file} has no placement of {capacity_bytes} bytes",
            hint=f"run: {command_line('recommend', folder.path)}",
        )
    return found if capacity_bytes else []


def _placed(touched: TouchedBlocks, row: Mapping[str, Any]) -> Integers:
    """Return the positions of the blocks that a placement has on NVM."""
    if row["placement"] == MOST_ACCESSED:
        return hottest_first(touched)[: row["capacity_bytes"] // BLOCK_BYTES]
    parts = [
        blocks_in_order(touched, role, coverage=row["coverage"])[: row[key] // BLOCK_BYTES]
        for role, key in PLACED_BYTES.items()
    ]
    return np.concatenate(parts)
