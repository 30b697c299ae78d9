"""What to buy: gain, price and lifetime of each device, and when the answer is to buy none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from msgspec import structs

from tracekit.devices import (
    DevicePair,
    LatencyCell,
    Profile,
    choose_profile,
    load_profiles,
    mean_of,
)
from tracekit.errors import InputError, UsageError
from tracekit.metadata import Record
from tracekit.model import answer as choice
from tracekit.model.answer import Answer, Recommendation, read_recommendation
from tracekit.model.block_orders import blocks_in_order
from tracekit.model.endurance import DAYS_A_YEAR, Step, a_day, lasting, read_writes
from tracekit.model.placement import ChargedTrace, curves_at
from tracekit.model.shared_nvm import Share, Tenant, share_nvm
from tracekit.store import TraceFolder, write_results
from tracekit.units import BLOCK_BYTES, DAY_NS, GB, PAGE_BYTES, format_duration, format_size

RESULT = "simulations/purchase.json"
BUY, DO_NOT = "buy", "do not buy"
YEARS = 5.0
"""For how long what is touched must fit, where a device has no warranty."""
LONGEST_YEARS = 1e6
QUICKER = 2.0
"""How many times as quick as the base device NVM is at least, unless it is named."""
MIXED_DEPTH = 4
LARGEST_GROWTH = 100.0


class Offer(Record):
    """So many devices of one kind, and what they would do; None is not known."""

    device: str
    devices: int
    capacity_bytes: int
    price_usd: float | None
    price_date: str | None
    placement: str
    placed_bytes: int
    gain_ratio: float
    mixed_gain_ratio: float | None
    """The gain where reads and writes slow each other as they did when it was characterized."""
    read_slowdown: float | None
    write_ratio: float
    written_bytes_a_day: float | None
    lifetime_years: float | None
    """Until its rated writes are used up, with the growth; None also where nothing is written."""
    warranty_years: float | None
    full_years: float | None
    """Until what is touched no longer fits; None: never."""
    verdict: str = BUY
    reason: str = ""
    is_within_budget: bool = True
    is_on_front: bool = False


class Purchase(Record):
    """The content of simulations/purchase.json."""

    base: str
    budget_usd: float | None
    growth: float
    """Factor of the load, and of what it touches, a year."""
    duration_ns: int
    offers: list[Offer]
    chosen: str | None
    shares: list[Share]
    shared_bytes: int | None
    not_offered: list[str]
    """Faster than the base, but without a price or a capacity."""
    headline: list[str]


@dataclass(frozen=True)
class PurchaseOptions:
    """What may be bought, for how much, for which load, and who shares it."""

    nvm: tuple[str, ...] = ()
    budget: float | None = None
    growth: float = 1.0
    capacity_bytes: int | None = None
    profiles: Path | None = None
    share: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        """Check the numbers."""
        if self.budget is not None and not (self.budget > 0 and math.isfinite(self.budget)):
            raise UsageError(f"--budget {self.budget:g}: not an amount of USD above 0")
        if not 1 / LARGEST_GROWTH <= self.growth <= LARGEST_GROWTH:
            raise UsageError(
                f"--growth {self.growth:g}: not a factor from 0.01 to {LARGEST_GROWTH:g}",
                hint="1.3 is a load that grows by 30 % a year",
            )


def years_until(amount: float, *, a_year: float, growth: float) -> float:
    """Return after how many years a rate that grows by a factor a year has come to an amount.

    The integral of rate x growth^t from 0 to T is rate x (growth^T - 1) / ln growth.
    """
    if a_year <= 0:
        return math.inf
    if growth == 1:
        return amount / a_year
    whole = 1 + amount / a_year * math.log(growth)
    return math.log(whole) / math.log(growth) if whole > 0 else math.inf


def lifetime_years(
    device: Profile, *, capacity_bytes: int, bytes_a_day: float, growth: float
) -> float:
    """Return the years until the rated writes of these devices are used up.

    By the rating of the data sheet, else by the cycles of a cell with ideal wear levelling;
    infinite where a device bears any number.
    """
    cycles = device.rated_cycles or device.endurance_cycles
    if cycles is None:
        return math.inf
    return years_until(cycles * capacity_bytes, a_year=bytes_a_day * DAYS_A_YEAR, growth=growth)


def slowed(device: Profile, write_ratio: float) -> tuple[Profile, float] | None:
    """Return the device as it is among this share of writes, and how much longer its reads take.

    By the measured cells of 4 KiB at the depth nearest to 4, straight lines between the shares;
    None where no mix was measured.
    """
    cells = [cell for cell in device.distributions if cell.length_bytes == PAGE_BYTES]
    depths = sorted({cell.depth for cell in cells}, key=lambda d: abs(math.log2(d / MIXED_DEPTH)))
    for depth in depths:
        factors = [
            _factor(
                [c for c in cells if (c.operation, c.depth) == (name, depth)], alone, write_ratio
            )
            for name, alone in (("read", 0.0), ("write", 1.0))
        ]
        read, write = factors
        if read is None or write is None:
            continue
        changed = replace(
            device,
            read_latency_us=device.read_latency_us * read,
            write_latency_us=device.write_latency_us * write,
            read_mib_s=device.read_mib_s / read,
            write_mib_s=device.write_mib_s / write,
        )
        return changed, read
    return None


def _factor(cells: Sequence[LatencyCell], alone: float, write_ratio: float) -> float | None:
    """Return how many times as long an operation takes in a mix as alone; never less."""
    means = {cell.write_ratio: mean_of(cell.quantiles_us) for cell in cells}
    if alone not in means or len(means) < 2:
        return None
    shares = sorted(means)
    mixed = float(np.interp(write_ratio, shares, [means[share] for share in shares]))
    return max(1.0, mixed / means[alone])


def simulate_purchase(
    folder: TraceFolder, options: PurchaseOptions, *, on_step: Step = lambda *_: None
) -> Purchase:
    """Write simulations/purchase.json and return it."""
    advice = read_recommendation(folder)
    trace = choice.charged_trace(folder, advice)
    wanted, not_offered = _devices(trace.devices.base, options)
    market = _Market(folder, trace, advice, options)
    offers: list[Offer] = []
    for number, device in enumerate(wanted):
        on_step(device.name, number, len(wanted))
        offers += market.offers(device)
    found = Purchase(
        base=advice.base_profile,
        budget_usd=options.budget,
        growth=options.growth,
        duration_ns=folder.info.clock.duration_ns,
        offers=mark_front(offers),
        chosen=None,
        shares=[],
        shared_bytes=None,
        not_offered=not_offered,
        headline=[],
    )
    if options.share:
        found.shared_bytes = options.capacity_bytes or advice.answer.capacity_bytes
        tenants = [_tenant(TraceFolder(path), advice) for path in (folder.path, *options.share)]
        found.shares = share_nvm(tenants, found.shared_bytes)
    chosen = choose_offer(found.offers)
    found.chosen = None if chosen is None else chosen.device
    found.headline = headline(found, chosen)
    write_results(folder, RESULT, result=found, tables={})
    return found


def _devices(base: Profile, options: PurchaseOptions) -> tuple[list[Profile], list[str]]:
    """Return what can be bought, and the names of what is quicker but has no price."""
    known = load_profiles(options.profiles)
    if options.nvm:
        named = [choose_profile(known, name) for name in options.nvm]
        for device in named:
            if device.price_usd_per_gb is None or device.capacity_gb is None:
                raise InputError(
                    f"profile [{device.name}] has no price_usd_per_gb and capacity_gb",
                    hint="put what you were offered into a file for --profiles",
                )
        return named, []
    quicker = [
        one
        for one in known.values()
        if one.name != base.name and not one.has_head and _time_us(one) * QUICKER <= _time_us(base)
    ]
    priced = [one for one in quicker if one.price_usd_per_gb and one.capacity_gb]
    return priced, [one.name for one in quicker if one not in priced]


def _time_us(device: Profile) -> float:
    return device.read_latency_us + device.write_latency_us


@dataclass(frozen=True)
class _Market:
    """A trace for which devices are offered."""

    folder: TraceFolder
    trace: ChargedTrace
    advice: Recommendation
    options: PurchaseOptions

    @property
    def footprint_bytes(self) -> int:
        return int(self.trace.touched.role_blocks().sum()) * BLOCK_BYTES

    def offers(self, device: Profile) -> list[Offer]:
        """Return one device, and as many as take what is touched until the warranty ends."""
        one_bytes = round((device.capacity_gb or 0) * GB)
        years = device.warranty_years or YEARS
        needed = self.options.capacity_bytes
        if needed is None:
            needed = round(self.footprint_bytes * max(1.0, self.options.growth**years))
        counts = sorted({1, max(1, -(-needed // one_bytes))})
        return [self._offer(device, count, count * one_bytes) for count in counts]

    def _offer(self, device: Profile, count: int, capacity_bytes: int) -> Offer:
        trace = replace(self.trace, devices=DevicePair(self.trace.devices.base, device))
        usable = min(capacity_bytes, self.options.capacity_bytes or capacity_bytes)
        grid = choice.make_grid(
            trace.touched.role_blocks().tolist(),
            (usable,),
            max_bytes=min(usable, self.footprint_bytes) or None,
        )
        grid = choice.only_shown(grid)
        curves = curves_at(trace, grid.fine)
        answer = choice.find_answers(curves, self.advice.coverage).by_point[grid.headline]
        placed = placed_by(self.folder, trace, answer=answer, coverage=self.advice.coverage)
        growth = self.options.growth
        offer = offer_of(placed, capacity_bytes=capacity_bytes, growth=growth)
        offer.devices = count
        offer.price_usd = (device.price_usd_per_gb or 0) * capacity_bytes / GB
        budget = self.options.budget
        offer.is_within_budget = budget is None or offer.price_usd <= budget
        return judge(offer, device)


@dataclass(frozen=True)
class Placed:
    """What an answer has on the NVM of a trace's devices, and how often it is written."""

    trace: ChargedTrace
    answer: Answer
    coverage: str
    duration_ns: int
    pages: int
    written: int
    touched: int

    @property
    def write_ratio(self) -> float:
        """Writes by reads and writes, a page each."""
        return self.written / max(self.touched, 1)

    @property
    def bytes_a_day(self) -> float | None:
        """What is written to the NVM in a day; None where the duration is not known."""
        return a_day(self.written * BLOCK_BYTES, self.duration_ns)

    def years(self, capacity_bytes: int, growth: float) -> float | None:
        """Return how long the NVM lasts; None where that is not known, or nothing is written."""
        device, a_day_bytes = self.trace.devices.nvm, self.bytes_a_day
        if not a_day_bytes or not (device.rated_cycles or device.endurance_cycles):
            return None
        found = lifetime_years(
            device, capacity_bytes=capacity_bytes, bytes_a_day=a_day_bytes, growth=growth
        )
        return min(found, LONGEST_YEARS)


def placed_by(folder: TraceFolder, trace: ChargedTrace, *, answer: Answer, coverage: str) -> Placed:
    """Return what an answer has on NVM."""
    touched = trace.touched
    writes = read_writes(folder.require("blocks", made_by="classify"), touched)
    parts = [
        blocks_in_order(touched, role, coverage=coverage)[:count]
        for role, count in answer.blocks.items()
    ]
    placed = np.concatenate(parts)
    return Placed(
        trace,
        answer,
        coverage,
        folder.info.clock.duration_ns,
        pages=len(placed),
        written=int(writes[placed].sum()),
        touched=int(touched.accesses[placed].sum()),
    )


def offer_of(placed: Placed, *, capacity_bytes: int, growth: float = 1.0) -> Offer:
    """Return what an answer does to NVM of this capacity, without a price or a verdict."""
    trace, answer = placed.trace, placed.answer
    device = trace.devices.nvm
    mixed = slowed(device, placed.write_ratio)
    footprint = int(trace.touched.role_blocks().sum()) * BLOCK_BYTES
    return Offer(
        device=device.name,
        devices=1,
        capacity_bytes=capacity_bytes,
        price_usd=None,
        price_date=device.price_date,
        placement=answer.placement,
        placed_bytes=placed.pages * BLOCK_BYTES,
        gain_ratio=answer.gain_ratio,
        mixed_gain_ratio=None if mixed is None else _gain_on(placed, mixed[0]),
        read_slowdown=None if mixed is None else mixed[1],
        write_ratio=placed.write_ratio,
        written_bytes_a_day=placed.bytes_a_day,
        lifetime_years=placed.years(capacity_bytes, growth),
        warranty_years=device.warranty_years,
        full_years=_full_years(capacity_bytes, footprint, growth),
    )


def _full_years(capacity_bytes: int, footprint_bytes: int, growth: float) -> float | None:
    if growth <= 1 or not footprint_bytes:
        return None if footprint_bytes <= capacity_bytes else 0.0
    return max(0.0, math.log(capacity_bytes / footprint_bytes) / math.log(growth))


def _gain_on(placed: Placed, device: Profile) -> float:
    """Return the gain of the same placement with another NVM."""
    trace, answer = placed.trace, placed.answer
    changed = replace(trace, devices=DevicePair(trace.devices.base, device), on_rows=None)
    points = np.unique([0, answer.capacity_bytes // BLOCK_BYTES]).astype(np.int64)
    curves = curves_at(changed, points)
    found = {one.placement: one for one in choice.candidates(curves, placed.coverage)}
    elapsed_ps = int(found[answer.placement].elapsed_ps[-1])
    return choice.saved_ratio(elapsed_ps, curves.base_total_ps)


def judge(offer: Offer, device: Profile) -> Offer:
    """Set the verdict, and why it is not to buy."""
    reason = _against(offer, device)
    return structs.replace(offer, verdict=DO_NOT if reason else BUY, reason=reason)


def _against(offer: Offer, device: Profile) -> str:
    """Return what speaks against a device; nothing where nothing does."""
    if offer.gain_ratio < choice.WORTH_RATIO:
        return f"it gains {offer.gain_ratio:.1%}"
    if device.volatile and offer.placement != "swap":
        return "it is volatile: a power cut loses what is on it"
    years, warranty = offer.lifetime_years, offer.warranty_years
    if years is not None and warranty is not None and years < warranty:
        written = format_size(offer.written_bytes_a_day or 0)
        return (
            f"{written} written a day wear it out in {lasting(years * DAYS_A_YEAR)}, within its"
            f" warranty of {warranty:g} years"
        )
    mixed = offer.mixed_gain_ratio
    if mixed is not None and mixed < choice.WORTH_RATIO:
        return (
            f"with {offer.write_ratio:.0%} writes among them its reads take"
            f" {offer.read_slowdown:.3g} times as long, which leaves a gain of {mixed:.1%}"
        )
    return ""


def mark_front(offers: Sequence[Offer]) -> list[Offer]:
    """Return the offers, those marked that no other one beats in gain, price and lifetime.

    Only what may be bought within the budget counts. A lifetime that is not known is the shortest,
    that of a device on which nothing is written the longest.
    """
    able = [one for one in offers if one.verdict == BUY and one.is_within_budget]
    return [
        structs.replace(
            one, is_on_front=one in able and not any(_beats(other, one) for other in able)
        )
        for one in offers
    ]


def _merits(offer: Offer) -> tuple[float, float, float]:
    gain = offer.gain_ratio if offer.mixed_gain_ratio is None else offer.mixed_gain_ratio
    years = offer.lifetime_years
    if years is None:
        years = -math.inf if offer.written_bytes_a_day else math.inf
    return gain, -(offer.price_usd or 0), years


def _beats(one: Offer, other: Offer) -> bool:
    pairs = list(zip(_merits(one), _merits(other), strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def choose_offer(offers: Sequence[Offer]) -> Offer | None:
    """Return the cheapest on the front with KNEE_RATIO of the largest gain; None: buy none."""
    front = [one for one in offers if one.is_on_front]
    if not front:
        return None
    least = choice.KNEE_RATIO * max(_merits(one)[0] for one in front)
    return min(
        (one for one in front if _merits(one)[0] >= least), key=lambda one: one.price_usd or 0
    )


def headline(found: Purchase, chosen: Offer | None) -> list[str]:
    """Return what to buy or that nothing is, the front, and what rests on a guess."""
    lines = [_first_line(found, chosen)]
    lines += [f"On the front: {offer_words(one)}." for one in found.offers if one.is_on_front]
    refused = [one for one in found.offers if one.verdict == DO_NOT]
    lines += [f"Do not buy {_name(one)}: {one.reason}." for one in refused]
    if 0 < found.duration_ns < DAY_NS:
        lines.append(
            f"Writes a day are those of a trace of {format_duration(found.duration_ns)}, at the"
            " same rate all day: a guess unless the load is always like this."
        )
    if found.not_offered:
        lines.append(f"Without a price or capacity, and left out: {', '.join(found.not_offered)}.")
    lines += [
        f"{share.trace} gets {format_size(share.capacity_bytes)} of the shared"
        f" {format_size(found.shared_bytes or 0)}: {share.saved_ratio:.1%} of its time;"
        f" the next {format_size(share.step_bytes)} would save {share.marginal_ratio:.2%}."
        for share in found.shares
    ]
    return lines


def _first_line(found: Purchase, chosen: Offer | None) -> str:
    if chosen is not None:
        return f"Buy {offer_words(chosen)}."
    if not found.offers:
        return "Do not buy: no device with a price is twice as quick as the base device."
    able = [one for one in found.offers if one.verdict == BUY]
    if able:
        least = min(one.price_usd or 0 for one in able)
        return (
            f"Do not buy: nothing that pays costs {found.budget_usd:,.0f} USD or less; the cheapest"
            f" is {least:,.0f} USD."
        )
    return f"Do not buy: none of {len(found.offers)} offers pays, lasts its warranty and is safe."


def _name(offer: Offer) -> str:
    return f"{offer.devices} x {offer.device}"


def offer_words(offer: Offer) -> str:
    """Return an offer in a line: what it is, costs, gains, and how long it lasts."""
    price = "" if offer.price_usd is None else f", {offer.price_usd:,.0f} USD ({offer.price_date})"
    gain = f"gain {offer.gain_ratio:.1%}"
    if offer.mixed_gain_ratio is not None:
        gain += f", {offer.mixed_gain_ratio:.1%} with reads and writes mixed"
    years = offer.lifetime_years
    if years is not None:
        lasts = f"lasts {lasting(years * DAYS_A_YEAR)}"
    else:
        lasts = "its lifetime is not known" if offer.written_bytes_a_day else "nothing wears it"
    full = "" if offer.full_years is None else f", full in {offer.full_years:.1f} years"
    return f"{_name(offer)} ({format_size(offer.capacity_bytes)}{price}): {gain}, {lasts}{full}"


def warning_of(
    folder: TraceFolder, trace: ChargedTrace, *, answer: Answer, coverage: str
) -> str | None:
    """Return that the NVM of a recommendation should not be bought, and why; None: nothing is.

    A gain that is too small is the recommendation's own first line.
    """
    device = trace.devices.nvm
    if answer.placement == "base" or not (device.rated_cycles or device.distributions):
        return None
    one_bytes = round((device.capacity_gb or 0) * GB)
    placed = placed_by(folder, trace, answer=answer, coverage=coverage)
    offer = judge(offer_of(placed, capacity_bytes=max(one_bytes, answer.capacity_bytes)), device)
    if offer.verdict == BUY:
        return None
    return f"Do not buy {device.name} for this: {offer.reason}."


def _tenant(folder: TraceFolder, like: Recommendation) -> Tenant:
    """Return the curve of a trace that shares the NVM; InputError for one on other devices."""
    advice = read_recommendation(folder)
    for key in ("base_profile", "nvm_profile", "queueing"):
        if getattr(advice, key) != getattr(like, key):
            raise InputError(
                f"{folder.path}: its recommendation has {key} {getattr(advice, key)}, the other"
                f" {getattr(like, key)}",
                hint="run recommend on both with the same devices",
            )
    duration_ns = folder.info.clock.duration_ns
    if not duration_ns:
        raise InputError(
            f"{folder.path}: its duration is not known, so its load cannot be compared"
        )
    points = [(one.capacity_bytes, one.base_elapsed_ns - one.elapsed_ns) for one in advice.answers]
    return Tenant(folder.path.name, advice.answer.base_elapsed_ns, duration_ns, tuple(points))
