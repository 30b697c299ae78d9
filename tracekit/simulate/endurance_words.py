"""What `simulate endurance` found, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracekit.simulate.wear import DAY_NS
from tracekit.sizes import format_duration, format_size

NAMES = {"fs": "the file system", "journal": "the journal", "swap": "swap",
         "combined": "a split between roles", "optimal": "the hottest blocks of all roles",
         "base": "the base device alone"}  # fmt: skip
DAYS_A_YEAR = 365.25


def headline(result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences on the trace's length, the writes, the lifetime and the price."""
    found = [*_length(result["duration_ns"]), *_writes(rows)]
    chosen = [row for row in rows if row["kind"] == "placement"]
    if not chosen:
        return [*found, "No NVM is recommended, so none wears."]
    if result["endurance_cycles"] is None:
        chosen = [row for row in chosen if row["name"] == result["placement"]]
    return [*found, *(_lifetime(result, row) for row in chosen), _price(result)]


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
    start = f"{format_size(result['capacity_bytes'])} of {device} for {NAMES[row['name']]}"
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


def _price(result: Mapping[str, Any]) -> str:
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
