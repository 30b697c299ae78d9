"""The device profiles that are there: a list, one in full, or several side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import Any

from tracekit.devices import (
    KNOWN,
    QUANTILE_KEYS,
    TEXT_LISTS,
    Profile,
    choose_profile,
    load_profiles,
)
from tracekit.escapes import joined

UNKNOWN = "-"
NO_FIGURE = (*TEXT_LISTS, "about", "distributions", "repeats", *QUANTILE_KEYS)
COMPARED = tuple(key for key in KNOWN if key not in NO_FIGURE)


@dataclass(frozen=True)
class Listing:
    """Some profiles, and which of them are of the user's own file."""

    found: tuple[Profile, ...]
    own: frozenset[str]
    is_chosen: bool
    """Whether they were named, and not all there are."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """What the command prints with `--json`."""
        return {"profiles": [self._content(profile) for profile in self.found]}

    def _content(self, profile: Profile) -> dict[str, Any]:
        first = self.found[0]
        content = {key: value for key, value in asdict(profile).items() if value is not None}
        content |= {"is_own": profile.name in self.own, "rated_tbw": rated_tbw(profile)}
        if self.is_chosen and profile is not first:
            content["times_the_first"] = {
                key: ratio
                for key in COMPARED
                if (ratio := ratio_of(profile, first, key=key)) is not None
            }
        return content

    @property
    def text(self) -> str:
        """A table of all, or of the ones that were named; all that is known of a single one."""
        if not self.is_chosen:
            rows = [TITLES, *(_row(profile) for profile in self.found)]
            return joined(
                [*_columns(rows), *([FOOT] if any(p.assumed for p in self.found) else [])]
            )
        if len(self.found) == 1:
            return joined(_full(self.found[0]))
        return joined(_compared(self.found))


def list_profiles(names: Sequence[str] = (), *, file: Path | None = None) -> Listing:
    """Return the profiles of these names, or all; UsageError for one that there is not."""
    known = load_profiles(file)
    built_in = load_profiles()
    own = frozenset(name for name, one in known.items() if built_in.get(name) != one)
    chosen = [choose_profile(known, name) for name in dict.fromkeys(names)] or known.values()
    return Listing(tuple(chosen), own, bool(names))


def rated_tbw(profile: Profile) -> float | None:
    """Return the TB that may be written within the warranty, where capacity and rating are."""
    if profile.tbw is not None:
        return profile.tbw
    if profile.rated_cycles is None or profile.capacity_gb is None:
        return None
    return profile.rated_cycles * profile.capacity_gb / 1000


def _rated(profile: Profile) -> tuple[str, bool]:
    """Return these TB in words, and whether what they are worked out from is assumed."""
    keys = ("tbw",) if profile.dwpd is None else ("dwpd", "warranty_years", "capacity_gb")
    return _word(rated_tbw(profile)), profile.assumes(keys)


def ratio_of(profile: Profile, first: Profile, *, key: str) -> float | None:
    """Return a figure as a multiple of the first profile's; None where there is no such figure."""
    one, other = getattr(profile, key), getattr(first, key)
    numbers = all(isinstance(n, float | int) and not isinstance(n, bool) for n in (one, other))
    return one / other if numbers and other else None


TITLES = (
    "profile", "read us", "write us", "read MiB/s", "write MiB/s", "at once", "flush us", "GB",
    "TBW", "years", "USD/GB", "as of", "PLP",
)  # fmt: skip


SHOWN = (
    "read_latency_us", "write_latency_us", "read_mib_s", "write_mib_s", "parallelism", "flush_us",
    "capacity_gb", "tbw", "warranty_years", "price_usd_per_gb", "price_date",
    "power_loss_protection",
)  # fmt: skip
SOURCE_WIDTH, NO_SOURCE = 32, "none"
MARK = "*"
FOOT = f"{MARK} assumed: none of the profile's sources gives it (tracekit profiles NAME)"


def _row(profile: Profile) -> tuple[str, ...]:
    found = {key: (_word(getattr(profile, key)), key in profile.assumed) for key in SHOWN}
    found["parallelism"] = _word(profile.parallelism or 1), "parallelism" in profile.assumed
    found["tbw"] = _rated(profile)
    return (
        profile.name,
        *(word + MARK * is_assumed for word, is_assumed in (found[key] for key in SHOWN)),
    )


def _word(value: Any) -> str:
    if value is None or value == ():
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,.6g}" if isinstance(value, float | int) else str(value)


def _figure(profile: Profile, key: str) -> str:
    return _marked(_word(getattr(profile, key)), key in profile.assumed)


def _marked(word: str, is_assumed: bool) -> str:
    return word + " (assumed)" * is_assumed


def _columns(rows: Sequence[Sequence[str]], align: Callable[..., str] = str.rjust) -> list[str]:
    """Return the rows as lines: the first column to the left, the others as `align` has it."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(align(cell, width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        ).rstrip()
        for row in rows
    ]


def _full(profile: Profile) -> Iterator[str]:
    yield f"{profile.name}: {profile.about}"
    rows = [(key, _figure(profile, key)) for key in COMPARED if getattr(profile, key) is not None]
    rows += [("rated TBW", _marked(*_rated(profile)))] if profile.dwpd else []
    rows += [("distributions", f"{len(profile.distributions)}")] if profile.distributions else []
    yield from _columns(rows, str.ljust)
    yield from (f"source: {source}" for source in profile.sources)


def _compared(found: Sequence[Profile]) -> list[str]:
    """Return a line a figure; behind the first profile's its multiple in brackets."""
    first, *others = found
    rows: list[tuple[str, ...]] = [("", *(profile.name for profile in found))]
    for key in COMPARED:
        values = [getattr(profile, key) for profile in found]
        if all(value is None for value in values):
            continue
        cells = [
            _figure(one, key)
            + (f" (x{ratio:.3g})" if (ratio := ratio_of(one, first, key=key)) else "")
            for one in others
        ]
        rows.append((key, _figure(first, key), *cells))
    rows.append(("rated TBW", *(_marked(*_rated(profile)) for profile in found)))
    widths = [max(SOURCE_WIDTH, *map(len, column)) for column in list(zip(*rows, strict=True))[1:]]
    return _columns([*rows, *_sources(found, widths)])


def _sources(found: Sequence[Profile], widths: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Yield where the figures are from, as lines below them."""
    columns = [
        [
            line.ljust(width)
            for source in one.sources or (one.about if one.distributions else NO_SOURCE,)
            for line in wrap(source, width, subsequent_indent="  ")
        ]
        for one, width in zip(found, widths, strict=True)
    ]
    for number, cells in enumerate(zip_longest(*columns, fillvalue="")):
        yield ("" if number else "sources", *cells)
