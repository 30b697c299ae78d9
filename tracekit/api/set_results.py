"""What became of a stage of a trace set, and what is found of all its volumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tracekit.errors import PartialError, TracekitError
from tracekit.escapes import joined
from tracekit.units import counted, format_size

MOST_NAMED = 10


class Volumes(Protocol):
    """A trace set."""

    @property
    def path(self) -> Path:
        """The folder of the set."""

    def __len__(self) -> int:
        """Return how many volumes it has."""


@dataclass(frozen=True, repr=False)
class SetRun:
    """A stage of the volumes of a set: of how many it was done, and which are left out, and why."""

    traces: Volumes
    summary: Mapping[str, Any]

    @property
    def headline(self) -> str:
        """How many volumes were done."""
        found = self.summary
        parts = [f"{counted(found['done'], 'volume')} done"]
        if found["up_to_date"]:
            parts.append(f"{found['up_to_date']:,} up to date")
        if found["left_out"]:
            parts.append(f"{len(found['left_out']):,} left out")
        return f"{found['stage']}: {', '.join(parts)}"

    @property
    def text(self) -> str:
        """What the command prints."""
        return self.headline

    @property
    def notes(self) -> tuple[str, ...]:
        """Volumes that are left out, and why: the first of them."""
        left_out = self.summary["left_out"]
        named = [f"left out: {one['volume']}: {one['error']}" for one in left_out[:MOST_NAMED]]
        more = len(left_out) - len(named)
        return (*named, *([f"and {more:,} more, see --json"] if more else []))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Nothing: each volume has its own."""
        return ()

    def check(self) -> None:
        """Raise PartialError where volumes are left out, TracekitError where all are."""
        left_out = self.summary["left_out"]
        if not left_out:
            return
        kind = TracekitError if len(left_out) == len(self.traces) else PartialError
        count = counted(len(self.traces), "volume")
        raise kind(
            f"{self.summary['set']}: {len(left_out):,} of {count} left out: {left_out[0]['volume']}"
            + (" and others" if len(left_out) > 1 else ""),
            hint=left_out[0]["hint"],
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.summary['set']}\n{self.headline}"


SHOWN_VOLUMES = 20


class SetRecommendation(SetRun):
    """Which volume gets how much of an NVM that all share, and what that saves."""

    @property
    def shares(self) -> list[Mapping[str, Any]]:
        """What each volume gets, by what a GiB saves, the most first."""
        return list(self.summary.get("placement", {}).get("shares", ()))

    @property
    def headline(self) -> str:
        """The answer in a few sentences, one a line."""
        return joined(self._lines())

    def _lines(self) -> list[str]:
        return [*self.summary.get("placement", {}).get("headline", ()), super().headline]

    @property
    def text(self) -> str:
        """The answer, and the volumes to which a GiB gives most."""
        shares = [one for one in self.shares if one["capacity_bytes"]]
        if not shares:
            return self.headline
        width = max(6, *(len(one["trace"]) for one in shares[:SHOWN_VOLUMES]))
        lines = [
            f"{'volume':<{width}} {'NVM':>10} {'of its time':>12} {'s an hour':>10}"
            f" {'a GiB':>10} {'of twice':>10}  of what"
        ]
        for one in shares[:SHOWN_VOLUMES]:
            roles = ", ".join(f"{r} {format_size(n)}" for r, n in one["role_bytes"].items())
            lines.append(
                f"{one['trace']:<{width}} {format_size(one['capacity_bytes']):>10}"
                f" {one['saved_ratio']:>12.1%} {one['saved_s_an_hour']:>10.2f}"
                f" {one['saved_s_an_hour_a_gib']:>10,.0f} {format_size(one['doubled_bytes']):>10}"
                f"  {one['placement']}: {roles}"
            )
        if len(shares) > SHOWN_VOLUMES:
            more = len(shares) - SHOWN_VOLUMES
            lines.append(f"and {more:,} more in {self.summary['set']}/placement.json")
        return joined([*self._lines(), "", *lines])


class SetGroups(SetRun):
    """Groups of volumes that behave alike."""

    @property
    def text(self) -> str:
        """A line for each group: how large it is, a typical member, and in what it differs."""
        groups = self.summary["groups"]
        width = max(7, *(len(one["typical"]) for one in groups))
        lines = [
            f"{'volumes':>7} {'requests':>14}  {'typical':<{width}} {'a second':>10}"
            f" {'burstiness':>10} {'touched':>10} {'writes':>7} {'random':>7}  what it is like"
        ]
        for one in groups:
            found = {
                name: 0.0 if value is None else value for name, value in one["medians"].items()
            }
            lines.append(
                f"{len(one['volumes']):>7,} {one['requests']:>14,}  {one['typical']:<{width}}"
                f" {found['average_per_s']:>10,.2f} {found['burstiness']:>10,.1f}"
                f" {format_size(int(found['working_set_bytes'])):>10} {found['write_ratio']:>7.0%}"
                f" {found['random_ratio']:>7.0%}  {', '.join(one['traits']) or 'like the mean'}"
            )
        apart = self.summary["silhouette"]
        how = "" if apart is None else f"; how well groups are apart, -1 to 1: {apart:.2f}"
        return joined([*lines, "", f"numbers are medians of a group{how}"])


class SetCaches(SetRun):
    """What an LRU cache of a share of what it touched gives each volume of a set."""

    @property
    def volumes(self) -> list[Mapping[str, Any]]:
        """What each volume misses, the one with most references first."""
        return list(self.summary["caches"]["volumes"])

    @property
    def text(self) -> str:
        """A line for each volume, and one for all together."""
        found = self.summary["caches"]
        rows = [*self.volumes[:SHOWN_VOLUMES], found["all"]]
        width = max(6, *(len(one["volume"]) for one in rows))
        heads = "".join(f"{f'{share:.1%}':>8}" for share in found["shares"])
        lines = [f"{'volume':<{width}} {'references':>14} {'touched':>10} {heads} {'all':>8}"]
        for one in rows:
            ratios = "".join(f"{ratio:>8.1%}" for ratio in one["miss_ratios"])
            touched = format_size(one["touched_bytes"])
            start = f"{one['volume']:<{width}} {one['references']:>14,} {touched:>10}"
            lines.append(f"{start} {ratios} {one['least_miss_ratio']:>8.1%}")
        if len(self.volumes) > SHOWN_VOLUMES:
            lines.insert(-1, f"and {len(self.volumes) - SHOWN_VOLUMES:,} more, see --json")
        what = "missed by an LRU cache of this share of what the volume touched; each has its own"
        return joined([self.headline, "", *lines, "", what])


class SetTiers(SetRun):
    """Which mix of storage tiers gives each volume of a set most for its price."""

    @property
    def volumes(self) -> list[Mapping[str, Any]]:
        """The best mixes of each volume, by what the first tier gains, the most first."""
        return list(self.summary["tiers"]["volumes"])

    @property
    def text(self) -> str:
        """A line for each volume, and how many gain."""
        rows = self.volumes[:SHOWN_VOLUMES]
        width = max(6, *(len(one["volume"]) for one in rows), 0)
        first = self.summary["tiers"]["first"]
        lines = [f"{'volume':<{width}} {'size':>10} {'gain':>8}  best mix with {first}; without"]
        for one in rows:
            size, gain = format_size(one["capacity_bytes"]), f"{one['gain_ratio']:+.1%}"
            mixes = f"{one['with_first']}; {one['without_first']}"
            lines.append(f"{one['volume']:<{width}} {size:>10} {gain:>8}  {mixes}")
        if len(self.volumes) > SHOWN_VOLUMES:
            lines.append(f"and {len(self.volumes) - SHOWN_VOLUMES:,} more, see --json")
        gaining = sum(one["gain_ratio"] > 0 for one in self.volumes)
        what = f"{first} gives {counted(gaining, 'volume')} more IOPS for the price"
        return joined([self.headline, "", *lines, "", what])


class SetReport(SetRun):
    """Where the page of a set is, and what it does not have yet."""

    @property
    def path(self) -> Path:
        """The HTML file."""
        return Path(self.summary["report"])

    @property
    def text(self) -> str:
        """The file."""
        return str(self.summary["report"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing, with the command that makes it, and volumes that are left out."""
        missing = (
            f"not in it yet: {', '.join(titles)}; run: {command}"
            for command, titles in self.summary["missing"].items()
        )
        return (*missing, *super().notes)
