"""What to buy: gain, price and lifetime of each device, and when the answer is to buy none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
from msgspec import structs

from tracekit.devices import (
    ENDURANCE,
    PRICE,
    TIMES,
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
from tracekit.model.answer import Recommendation, read_recommendation
from tracekit.model.best_choice import Best, find_best
from tracekit.model.best_placement import OnNvm, blocks_of, time_ps
from tracekit.model.endurance import DAYS_A_YEAR, Step, a_day, lasting, read_writes
from tracekit.model.footprint_growth import footprint
from tracekit.model.gain_range import choose_cut
from tracekit.model.placement import COVERAGES, ChargedTrace, Curves, curves_at, to_ns
from tracekit.model.service_times import GUESSED
from tracekit.model.shared_nvm import Share, Tenant, share_nvm
from tracekit.store import TraceFolder, write_results
from tracekit.units import BLOCK_BYTES, DAY_NS, GB, PAGE_BYTES, format_duration, format_size

RESULT = "simulations/purchase.json"
BUY, DO_NOT = "buy", "do not buy"
YEARS = 5.0
"""For how long what is touched must fit, where a device has no warranty."""
LONGEST_YEARS = 1e6
LONG_YEARS = 100.0
"""A device that lasts longer than that is no better for it."""
QUICKER = 2.0
"""How many times as quick as the base device NVM is at least, unless it is named."""
MIXED_DEPTH = 4
LARGEST_GROWTH = 100.0
DECISIVE = {"times": TIMES, "price": PRICE, "endurance": ENDURANCE}


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
    assumed: list[str] = msgspec.field(default_factory=list)
    """Which of times, price and endurance no source gives, or not all of it."""

    @property
    def wears_out(self) -> bool:
        """Whether its rated writes are used up within the warranty."""
        years, warranty = self.lifetime_years, self.warranty_years
        return years is not None and warranty is not None and years < warranty


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
    shared_device: str | None
    """Of which device: the chosen one, else that of the recommendation."""
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
                hint="1.3 is a load that grows by 30% a year",
            )
        if self.capacity_bytes is not None and self.capacity_bytes < BLOCK_BYTES:
            raise UsageError(f"--capacity {self.capacity_bytes}: not one block of 4 KiB")


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
    loads = _loads(folder, options.share, advice)
    bases = [one.trace.devices.base for one in loads]
    wanted, not_offered = _devices(min(bases, key=_time_us), options)
    market = _Market(loads, options)
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
        shared_device=None,
        not_offered=not_offered,
        headline=[],
    )
    chosen = choose_offer(found.offers)
    found.chosen = None if chosen is None else chosen.device
    if options.share:
        found.shared_bytes = options.capacity_bytes or advice.answer.capacity_bytes
        named = {one.name: one for one in wanted}
        device = named.get(found.chosen or "", advice.profiles[1])
        found.shared_device = device.name
        found.shares = market.shares(device, found.shared_bytes)
    found.headline = headline(found, chosen, doubts=[*_doubts(advice, loads, chosen)])
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
class _Load:
    """A trace, with a name where it shares the NVM with others."""

    folder: TraceFolder
    trace: ChargedTrace
    name: str = ""

    @property
    def footprint_bytes(self) -> int:
        return footprint_bytes(self.trace)

    def placed(self, device: Profile, usable: int) -> Placed:
        """Return what `recommend` would place block by block on so many bytes of a device."""
        trace, grid, curves = self._on(device, (usable,))
        best = self._best(trace, curves, replace(grid, shown=np.array([grid.headline])))
        return replace(placed_by(self.folder, trace, best=best), base_ps=curves.base_total_ps)

    def tenant(self, device: Profile) -> Tenant:
        """Return what it saves at some capacities of a device, by roles and block by block."""
        trace, grid, curves = self._on(device)
        best = self._best(trace, curves, grid)
        base_ns = to_ns(curves.base_total_ps)
        answers = [
            *choice.find_answers(curves, COVERAGES[0]).by_point,
            *(best.placement.answers if best is not None else ()),
        ]
        points = tuple((one.capacity_bytes, base_ns - one.elapsed_ns) for one in answers)
        return Tenant(self.name, base_ns, self.folder.info.clock.duration_ns, points)

    def _on(
        self, device: Profile, usable: tuple[int, ...] = ()
    ) -> tuple[ChargedTrace, choice.Grid, Curves]:
        trace = replace(self.trace, devices=DevicePair(self.trace.devices.base, device))
        most = usable[0] if usable and usable[0] else None
        grid = choice.make_grid(trace.touched.role_blocks().tolist(), usable, max_bytes=most)
        grid = choice.only_shown(grid)
        return trace, grid, curves_at(trace, grid.fine)

    def _best(self, trace: ChargedTrace, curves: Curves, grid: choice.Grid) -> Best | None:
        is_mixed = bool((self.folder.info.hotness or {}).get("mixed_role_blocks"))
        return find_best(trace, curves, grid=grid, cut=choose_cut(self.folder), is_mixed=is_mixed)


@dataclass(frozen=True)
class _Market:
    """The traces for which devices are offered."""

    loads: Sequence[_Load]
    options: PurchaseOptions
    tenants: dict[Profile, list[Tenant]] = field(default_factory=dict)

    def shares(self, device: Profile, capacity_bytes: int) -> list[Share]:
        """Divide so much of a device between the traces, by what it saves each of them."""
        if device not in self.tenants:
            self.tenants[device] = [one.tenant(device) for one in self.loads]
        return share_nvm(self.tenants[device], capacity_bytes)

    def offers(self, device: Profile) -> list[Offer]:
        """Return one device, and as many as take what is touched until the warranty ends."""
        one_bytes = round((device.capacity_gb or 0) * GB)
        years, touched = (
            device.warranty_years or YEARS,
            sum(one.footprint_bytes for one in self.loads),
        )
        needed = self.options.capacity_bytes
        if needed is None:
            needed = round(touched * max(1.0, self.options.growth**years))
        placed: dict[int, list[Placed]] = {}
        offers = []
        for count in sorted({1, max(1, -(-needed // one_bytes))}):
            size = count * one_bytes
            usable = min(size, self.options.capacity_bytes or size, touched)
            if usable not in placed:
                placed[usable] = self._placed(device, usable, touched)
            offers.append(self._offer(placed[usable], count, size))
        return offers

    def _placed(self, device: Profile, usable: int, touched: int) -> list[Placed]:
        """Return what each trace has there: all that it touched, or its share of what is scarce."""
        sizes = [one.footprint_bytes for one in self.loads]
        if usable < touched:
            is_shared = len(self.loads) > 1
            shares = self.shares(device, usable) if is_shared else []
            sizes = [one.capacity_bytes for one in shares] if is_shared else [usable]
        return [one.placed(device, size) for one, size in zip(self.loads, sizes, strict=True)]

    def _offer(self, placed: Sequence[Placed], count: int, capacity_bytes: int) -> Offer:
        device, budget = placed[0].trace.devices.nvm, self.options.budget
        offer = offer_of(placed, capacity_bytes=capacity_bytes, growth=self.options.growth)
        offer.devices = count
        offer.price_usd = (device.price_usd_per_gb or 0) * capacity_bytes / GB
        offer.is_within_budget = budget is None or offer.price_usd <= budget
        return judge(offer, device)


def footprint_bytes(trace: ChargedTrace) -> int:
    """Return what a trace touched."""
    return int(trace.touched.role_blocks().sum()) * BLOCK_BYTES


@dataclass(frozen=True)
class Placed:
    """What the best placement has on the NVM of a trace's devices, and how often it is written."""

    trace: ChargedTrace
    on_nvm: OnNvm
    gain_ratio: float
    roles: tuple[str, ...]
    duration_ns: int
    written: int
    touched: int
    base_ps: int = 1
    """Its time on the base device: what its gain counts for beside that of other traces."""

    def a_ns(self, amount: float) -> float:
        """Return an amount by nanosecond of the trace; as it is where that is not known."""
        return amount / max(self.duration_ns, 1)

    def gain_on(self, device: Profile) -> float:
        """Return the gain of the same placement with another NVM."""
        pair = DevicePair(self.trace.devices.base, device)
        alone_ps, placed_ps = time_ps(replace(self.trace, devices=pair, on_rows=None), self.on_nvm)
        return choice.saved_ratio(placed_ps, alone_ps)


def placed_by(folder: TraceFolder, trace: ChargedTrace, *, best: Best | None) -> Placed:
    """Return what the best placement has on NVM; nothing where it saves nothing."""
    touched, duration_ns = trace.touched, folder.info.clock.duration_ns
    if best is None or best.placement.answer.gain_ratio <= 0:
        return Placed(trace, np.zeros(len(touched.keys), np.uint8), 0.0, (), duration_ns, 0, 0)
    answer, on_nvm = best.placement.answer, blocks_of(touched, best.table)
    writes = read_writes(folder.require("blocks", made_by="classify"), touched)
    return Placed(
        trace,
        on_nvm,
        answer.gain_ratio,
        tuple(answer.role_bytes),
        duration_ns,
        written=int(writes[on_nvm == 1].sum()),
        touched=int(touched.accesses[on_nvm == 1].sum()),
    )


def offer_of(placed: Sequence[Placed], *, capacity_bytes: int, growth: float = 1.0) -> Offer:
    """Return what placements do to NVM of this capacity, without a price or a verdict."""
    device = placed[0].trace.devices.nvm
    rates = [one.a_ns(one.base_ps) for one in placed]

    def together(gains: Sequence[float]) -> float:
        return float(np.average(gains, weights=rates)) if any(rates) else 0.0

    days = [a_day(one.written * BLOCK_BYTES, one.duration_ns) for one in placed]
    bytes_a_day = None if None in days else sum(one or 0 for one in days)
    touches = sum(one.a_ns(one.touched) for one in placed)
    write_ratio = sum(one.a_ns(one.written) for one in placed) / touches if touches else 0.0
    mixed = slowed(device, write_ratio)
    touched_bytes = sum(footprint_bytes(one.trace) for one in placed)
    return Offer(
        device=device.name,
        devices=1,
        capacity_bytes=capacity_bytes,
        price_usd=None,
        price_date=device.price_date,
        placement="+".join(dict.fromkeys(r for one in placed for r in one.roles)) or "base",
        placed_bytes=sum(int(one.on_nvm.sum()) for one in placed) * BLOCK_BYTES,
        gain_ratio=together([one.gain_ratio for one in placed]),
        mixed_gain_ratio=together([one.gain_on(mixed[0]) for one in placed]) if mixed else None,
        read_slowdown=mixed[1] if mixed else None,
        write_ratio=write_ratio,
        written_bytes_a_day=bytes_a_day,
        lifetime_years=_lifetime(device, capacity_bytes, bytes_a_day, growth),
        warranty_years=device.warranty_years,
        full_years=_full_years(capacity_bytes, touched_bytes, growth),
        assumed=[name for name, keys in DECISIVE.items() if device.assumes(keys)],
    )


def _lifetime(
    device: Profile, capacity_bytes: int, bytes_a_day: float | None, growth: float
) -> float | None:
    """Return the years until the writes that these devices bear are used up.

    By the rating of the data sheet, else by the cycles of a cell with ideal wear levelling; None
    where that is not known, or nothing is written.
    """
    cycles = device.rated_cycles or device.endurance_cycles
    if not bytes_a_day or cycles is None:
        return None
    a_year = bytes_a_day * DAYS_A_YEAR
    return min(years_until(cycles * capacity_bytes, a_year=a_year, growth=growth), LONGEST_YEARS)


def _full_years(capacity_bytes: int, footprint_bytes: int, growth: float) -> float | None:
    if growth <= 1 or not footprint_bytes:
        return None if footprint_bytes <= capacity_bytes else 0.0
    return max(0.0, math.log(capacity_bytes / footprint_bytes) / math.log(growth))


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
    if offer.wears_out:
        written = format_size(offer.written_bytes_a_day or 0)
        return (
            f"{written} written a day wear it out in"
            f" {lasting((offer.lifetime_years or 0) * DAYS_A_YEAR)}{_mark(offer, 'endurance')},"
            f" within its warranty of {offer.warranty_years:g} years"
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
    return gain, -(offer.price_usd or 0), min(years, LONG_YEARS)


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


def headline(found: Purchase, chosen: Offer | None, *, doubts: Sequence[str]) -> list[str]:
    """Return what to buy or that nothing is, what rests on a guess, and the front."""
    lines = [_first_line(found, chosen), *_assumptions(found.offers), *doubts]
    others = [one for one in found.offers if one.is_on_front and one is not chosen]
    lines += [f"Also on the front: {offer_words(one)}." for one in others]
    refused = [one for one in found.offers if one.verdict == DO_NOT]
    lines += [f"Do not buy {_name(one)}: {one.reason}." for one in refused]
    if found.not_offered:
        lines.append(f"Without a price or capacity, and left out: {', '.join(found.not_offered)}.")
    lines += [
        f"{share.trace} gets {format_size(share.capacity_bytes)} of the shared"
        f" {format_size(found.shared_bytes or 0)} of {found.shared_device}:"
        f" {share.saved_ratio:.1%} of its time;"
        f" the next {format_size(share.step_bytes)} would save {share.marginal_ratio:.2%}."
        for share in found.shares
    ]
    return lines


def _first_line(found: Purchase, chosen: Offer | None) -> str:
    if chosen is not None:
        of_all = f" (all {len(found.shares)} traces together)" if found.shares else ""
        return (
            f"Buy {offer_words(chosen)}{of_all}: the cheapest that gives"
            f" {choice.KNEE_RATIO:.0%} of the largest gain."
        )
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


def _doubts(advice: Recommendation, loads: Sequence[_Load], chosen: Offer | None) -> Iterator[str]:
    """Yield on which guesses all offers rest: the base device, writes a day, the capture."""
    if advice.base.kind == GUESSED and advice.base.sentence is not None:
        yield advice.base.sentence
    if any(one.trace.devices.base != loads[0].trace.devices.base for one in loads):
        bases = ", ".join(f"{one.name} {one.trace.devices.base.name}" for one in loads)
        yield f"Each trace is on a base device of its own: {bases}."
    lasts_ns = [one.folder.info.clock.duration_ns for one in loads]
    if 0 < min(lasts_ns) < DAY_NS:
        yield _guess(*lasts_ns)
    for one in loads:
        # No capture touches a whole device: what is said of that is left out.
        blocks = one.folder.require("blocks", made_by="classify")
        size = 0 if one.name or chosen is None else chosen.capacity_bytes
        whole, touched = (footprint(blocks, each).sentences for each in (size, 0))
        of = f"Of {one.name}: " if one.name else ""
        for sentence in (*whole[: len(whole) - len(touched)], *touched):
            yield of + sentence


FIGURES = {"times": "some times", "price": "the price", "endurance": "the endurance"}


def _assumptions(offers: Sequence[Offer]) -> Iterator[str]:
    """Yield how many figures are from no source or were not measured, and whose."""
    devices = {one.device: one for one in offers}
    for name, words in FIGURES.items():
        if of := [one.device for one in devices.values() if name in one.assumed]:
            yield f"Assumed, with no source: {words} of {_of(of, len(devices))}."
    if of := [o.device for o in devices.values() if o.placed_bytes and o.read_slowdown is None]:
        yield (
            f"Not measured, and in no gain here: how writes slow the reads of"
            f" {_of(of, len(devices))}; characterize-device measures it."
        )


def _of(names: Sequence[str], count: int) -> str:
    return f"{len(names)} of {count} devices: {', '.join(names)}"


def _mark(offer: Offer, figure: str) -> str:
    return " (assumed)" if figure in offer.assumed else ""


def _guess(*lasts_ns: int) -> str:
    traces = "a trace" if len(lasts_ns) == 1 else "traces"
    return (
        f"Writes a day are those of {traces} of {', '.join(map(format_duration, lasts_ns))}, at the"
        " same rate all day: a guess unless the load is always like this."
    )


def _name(offer: Offer) -> str:
    return f"{offer.devices} x {offer.device}"


def offer_words(offer: Offer) -> str:
    """Return an offer in a line: what it is, costs, gains, and how long it lasts."""
    price = ""
    if offer.price_usd is not None:
        date = offer.price_date or "an unknown date"
        price = f", {offer.price_usd:,.0f} USD of {date}{_mark(offer, 'price')}"
    gain = f"gain {offer.gain_ratio:.1%}"
    if offer.mixed_gain_ratio is not None:
        gain += f", {offer.mixed_gain_ratio:.1%} with reads and writes mixed"
    years = offer.lifetime_years
    if years is not None:
        long = f"over {LONG_YEARS:g} years" if years > LONG_YEARS else lasting(years * DAYS_A_YEAR)
        lasts = f"lasts {long}{_mark(offer, 'endurance')}"
    else:
        lasts = "its lifetime is not known" if offer.written_bytes_a_day else "nothing wears it"
    full = "" if offer.full_years is None else f", full in {offer.full_years:.1f} years"
    return f"{_name(offer)} ({offer.capacity_bytes / GB:,.6g} GB{price}): {gain}, {lasts}{full}"


def warning_of(folder: TraceFolder, trace: ChargedTrace, *, best: Best | None) -> str | None:
    """Return that the NVM of a recommendation should not be bought, and why; None: nothing is.

    A gain that is too small is the recommendation's own first line.
    """
    device = trace.devices.nvm
    known = device.rated_cycles or device.distributions or device.volatile
    if best is None or best.placement.answer.gain_ratio < choice.WORTH_RATIO or not known:
        return None
    size, one_bytes = best.placement.answer.capacity_bytes, round((device.capacity_gb or 0) * GB)
    size = max(1, -(-size // one_bytes)) * one_bytes if one_bytes else size
    offer = judge(offer_of([placed_by(folder, trace, best=best)], capacity_bytes=size), device)
    if offer.verdict == BUY:
        return None
    lasts_ns = folder.info.clock.duration_ns
    guess = f" {_guess(lasts_ns)}" if offer.wears_out and lasts_ns < DAY_NS else ""
    return f"Do not buy {device.name} for this: {offer.reason}.{guess}"


def _loads(folder: TraceFolder, share: Sequence[Path], like: Recommendation) -> list[_Load]:
    """Return the traces that share the NVM, named so that they can be told apart, each on its base.

    InputError for one of another kind of time, or without a duration.
    """
    if not share:
        return [_Load(folder, choice.charged_trace(folder, like))]
    paths = [path.resolve() for path in (folder.path, *share)]
    if len(set(paths)) < len(paths):
        raise UsageError("--share: a trace cannot share the NVM with itself")
    is_known = len({path.name for path in paths}) == len(paths)
    found = []
    for path, given in zip(paths, (folder.path, *share), strict=True):
        one = TraceFolder(given)
        advice = read_recommendation(one)
        if advice.queueing != like.queueing:
            raise InputError(
                f"{given}: its recommendation has queueing {advice.queueing}, the other"
                f" {like.queueing}",
                hint="run recommend on both with the same --queueing",
            )
        if not one.info.clock.duration_ns:
            raise InputError(f"{given}: its duration is not known, so its load cannot be compared")
        name = path.name if is_known else str(given)
        found.append(_Load(one, choice.charged_trace(one, advice), name))
    return found
