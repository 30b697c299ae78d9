"""Gates: whether traces or replays after a change are better, worse or the same as before it."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tracekit import query
from tracekit.compare import (
    CANNOT_TELL,
    ELAPSED,
    Group,
    Key,
    Row,
    Values,
    find_warnings,
    groups_of,
    repeats,
    table_rows,
)
from tracekit.errors import InputError, UsageError
from tracekit.escapes import escape
from tracekit.metadata import Record
from tracekit.model.answer import read_recommendation
from tracekit.repeats import LEAST_REPEATS
from tracekit.store import INFO_NAME, TraceFolder
from tracekit.units import SECTOR_BYTES, format_duration, format_share, format_size

BETTER, WORSE, SAME, TOO_FEW = "better", "worse", "same", "too few requests"
MARGIN, GAIN_MARGIN = 0.05, 0.03
"""Share by which a measure may differ and still be the same, where the gate names none; of a gain,
which is a share itself, the difference."""
LEAST_REQUESTS = {"avg": 100, "p50": 100, "p99": 1000}
"""Of fewer a mean or a percentile says nothing: ten requests are beyond a p99 of so many."""
KEY = ("measure", "role", "operation")
RESPONSE = "q2c"
"""The step whose times are compared: from the queue to the completion."""
_ENTRY = re.compile(r"(?P<measure>[a-z0-9]+)(?:=(?P<percent>\d{1,3}(?:\.\d{1,3})?) ?%)?")


class Measure(NamedTuple):
    """What can be gated: how it is written, and in which direction it is better."""

    unit: str  # ns, bytes, requests, rate (requests a second), share (of the base's time)
    is_of_replays: bool = False
    more_is_better: bool = False


MEASURES: Mapping[str, Measure] = {
    "gain": Measure("share", more_is_better=True),
    "elapsed": Measure("ns", is_of_replays=True),
    "iops": Measure("rate", more_is_better=True),
    "avg": Measure("ns", is_of_replays=True),
    "p50": Measure("ns", is_of_replays=True),
    "p99": Measure("ns", is_of_replays=True),
    "footprint": Measure("bytes"),
    "bytes": Measure("bytes"),
    "requests": Measure("requests"),
}
"""Of a trace: response times (queue to completion) by role and operation, the rest of the whole.

Of `gain` the ratio compares the time that is left, as a share of the base device's.
"""


class GateRow(Record):
    """One measure before and after the change."""

    measure: str
    role: str
    operation: str
    unit: str
    before: float
    after: float
    repeats: int
    """Of the group with fewer."""
    requests: int
    """Of the run with the fewest, that the measure is of."""
    change: float | None
    """Of after to before, as a share of before; of a gain its difference. None: not comparable."""
    change_low: float | None
    change_high: float | None
    """Ends of the 95 % confidence interval; None where nothing was repeated."""
    margin: float
    """By which it may differ and still be the same."""
    verdict: str

    @property
    def what(self) -> str:
        """The measure with the requests it is of."""
        return what_of((self.measure, self.role, self.operation))


def what_of(key: Key) -> str:
    """Write a measure with the role and the operation that it is of."""
    measure, role, operation = key
    return measure if role == "all" else f"{measure} {role} {operation}"


class Gate(Record):
    """What a gate says of a change."""

    before: str
    after: str
    is_gated: bool
    """Whether measures were named that must not be worse."""
    verdict: str
    """The worst of all rows."""
    headline: list[str]
    rows: list[GateRow]
    warnings: list[str] = msgspec.field(default_factory=list)
    """What is to be doubted about the traces, by which of them."""


def parse_gate(text: str, *, known: Sequence[str] = tuple(MEASURES)) -> dict[str, float | None]:
    """Return the margin of each measure of `--gate p99=10%,gain`; None where none is given."""
    found: dict[str, float | None] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        match = _ENTRY.fullmatch(entry)
        if match is None or match["measure"] not in known:
            raise UsageError(
                f"--gate {entry}: not MEASURE or MEASURE=N%",
                hint=f"a measure is one of {', '.join(known)}; for example p99=10%,elapsed",
            )
        if match["measure"] in found:
            raise UsageError(f"--gate {text}: {match['measure']} is named twice")
        percent = match["percent"]
        found[match["measure"]] = None if percent is None else float(percent) / 100
    if not found:
        raise UsageError("--gate: no measure is named", hint=f"one of {', '.join(known)}")
    return found


def repeats_of(place: Path) -> list[Path]:
    """Return the trace folder of this name, or its repeats NAME.1, NAME.2 and so on; or none."""
    if _is_trace(place):
        return [place]
    try:
        names = os.listdir(place.parent)
    except OSError:
        return []
    return [
        one for name in repeats(place.name, among=names) if _is_trace(one := place.parent / name)
    ]


def _is_trace(place: Path) -> bool:
    return os.path.isfile(place / INFO_NAME)


@dataclass(frozen=True)
class Changes:
    """Several names measured, each of the others against the first."""

    names: Sequence[str]
    rows: Sequence[Row]
    """The mean of each measure and name, also of what only one of them has."""
    gates: Sequence[Gate]
    warnings: Sequence[str]


def traces(before: Path, after: Path, *, gate: str | None = None) -> Gate:
    """Compare traces before and after a change; each may be several, as NAME.1, NAME.2 and so on.

    Without a gate all measures are compared that both have; one of the gate that one side lacks is
    an InputError.
    """
    wanted = dict.fromkeys(MEASURES) if gate is None else parse_gate(gate)
    sides = folders_of([before, after])
    found = changes(sides, wanted=wanted, is_gated=gate is not None)
    found.gates[0].warnings = [*found.warnings]
    return found.gates[0]


def folders_of(places: Sequence[Path]) -> dict[str, list[TraceFolder]]:
    """Return the repeats of each place by its name; UsageError for none and for one that is twice.

    Where a name is that of several places, each has its whole path.
    """
    whole = [Path(os.path.abspath(place)) for place in places]
    seen = set[Path]()
    found = {}
    for place in whole:
        side = _folders(place)
        real = {one.path: one.path.resolve() for one in side}
        if twice := [path for path, one in real.items() if one in seen]:
            raise UsageError(f"{twice[0]} would be compared with itself: name two trace folders")
        seen |= {*real.values()}
        is_clear = [one.name for one in whole].count(place.name) == 1
        found[place.name if is_clear else str(place)] = side
    return found


def changes(
    sides: Mapping[str, Sequence[TraceFolder]],
    *,
    wanted: Mapping[str, float | None],
    is_gated: bool = False,
) -> Changes:
    """Measure the repeats of each name and compare each of the others with the first."""
    needed = {*wanted} if is_gated else set[str]()
    all_folders = [one for side in sides.values() for one in side]
    left = _times_left(all_folders, is_needed="gain" in needed) if "gain" in wanted else {}
    groups = []
    for name, side in sides.items():
        values: Values = defaultdict(dict)
        for folder in side:
            for key, cell in _measured(folder, left.get(folder.path), needed).items():
                if key[0] in wanted:
                    values[key][folder.path.name] = cell
        groups.append(Group(name, values))
    rows, (first, *others) = table_rows(groups), sides
    gates = [judge(rows, wanted, names=(first, one), is_gated=is_gated) for one in others]
    return Changes([*sides], rows, gates, [*_doubts(all_folders)])


def replay_changes(folder: TraceFolder, names: Sequence[str]) -> Changes:
    """Compare replays of one trace in the same way, and write nothing."""
    groups = groups_of(folder, names)
    wanted = {name: None for name, one in MEASURES.items() if one.is_of_replays}
    rows = [_without_service(row) for row in table_rows(groups)]
    first, *others = (group.name for group in groups)
    gates = [judge(rows, wanted, names=(first, one), is_gated=False) for one in others]
    warnings = [f"{one.message}; {one.advice}" for one in find_warnings(groups)]
    return Changes([first, *others], rows, gates, warnings)


def parse_replay_gate(text: str) -> dict[str, float | None]:
    """Return the same of measures that a replay has."""
    return parse_gate(text, known=[name for name, one in MEASURES.items() if one.is_of_replays])


def replays(
    rows: Sequence[Row], *, names: Sequence[str], wanted: Mapping[str, float | None]
) -> Gate:
    """Judge rows of a comparison of replays; their times are service times."""
    return judge([_without_service(row) for row in rows], wanted, names=names)


def _without_service(row: Row) -> dict[str, Any]:
    """Return a row of a comparison of replays, of which all times are service times."""
    return {**row, "measure": row["measure"].removeprefix("service_")}


def judge(
    rows: Sequence[Row],
    wanted: Mapping[str, float | None],
    *,
    names: Sequence[str],
    is_gated: bool = True,
) -> Gate:
    """Return the verdict on each row of the second name, and the worst of them all."""
    before, after = (
        {
            tuple(row[part] for part in KEY): row
            for row in rows
            if row["name"] == name and row["measure"] in wanted
        }
        for name in names
    )
    found = [
        _row(after[key], before[key], margin=wanted[key[0]])
        for key in sorted(after, key=lambda key: [*wanted].index(key[0]))
        if key in before
    ]
    only = [
        (key, row)
        for key, row in {**before, **after}.items()
        if (key in before) != (key in after) and row["request_count"] >= _least(key[0])
    ]
    judged = {row.measure for row in found if row.verdict != TOO_FEW}
    missing = [one for one in wanted if one not in judged]
    is_whole = not (is_gated and (missing or only))
    verdict = _worst([row.verdict for row in found] + ([] if is_whole else [CANNOT_TELL]))
    absent = [*missing, *(what_of(key) for key, _ in only if key[0] not in missing)]
    return Gate(
        before=names[0],
        after=names[1],
        is_gated=is_gated,
        verdict=verdict,
        headline=[*_verdicts(found, names), *_absent(absent), *_advice(found)],
        rows=found,
    )


def _least(measure: str) -> int:
    """Return of how many requests at least a measure says something."""
    return LEAST_REQUESTS.get(measure, 0)


def value_of(row: Row, of: str = "time_ns") -> float:
    """Return what a row says of its measure; what it has of `gain` is the time that is left."""
    value = float(row[of])
    return 1 - value if MEASURES[row["measure"]].unit == "share" else value


def _row(after: Row, before: Row, *, margin: float | None) -> GateRow:
    measure = str(after["measure"])
    unit, repeats = MEASURES[measure].unit, min(after["repeats"], before["repeats"])
    is_share = unit == "share"
    scale = before["time_ns"] if is_share else 1.0
    changes = [
        None if (ratio := after[end]) is None else (ratio - 1) * scale * (-1 if is_share else 1)
        for end in ("ratio", "ratio_low", "ratio_high")
    ]
    change, *ends = changes
    low, high = ends[::-1] if is_share else ends
    given = margin if margin is not None else GAIN_MARGIN if is_share else MARGIN
    requests = min(after["request_count"], before["request_count"])
    row = GateRow(
        measure=measure,
        role=after["role"],
        operation=after["operation"],
        unit=unit,
        before=value_of(before),
        after=value_of(after),
        repeats=repeats,
        requests=requests,
        change=change,
        change_low=low,
        change_high=high,
        margin=given,
        verdict=TOO_FEW,
    )
    if requests >= _least(measure):
        row.verdict = _verdict(row, is_margin_given=margin is not None)
    return row


def _verdict(row: GateRow, *, is_margin_given: bool) -> str:
    """Return what the interval of the change says: the whole of it must be on one side.

    What was not repeated is judged by a margin that was given, which then says what chance does.
    """
    if row.before == row.after:
        return SAME
    low, high = row.change_low, row.change_high
    if is_margin_given and low is None:
        low = high = row.change
    elif row.repeats < LEAST_REPEATS:
        return CANNOT_TELL
    if low is None or high is None:
        return CANNOT_TELL
    # Half as long is as much better as twice as long is worse.
    less = -row.margin if row.unit == "share" else 1 / (1 + row.margin) - 1
    is_more, is_less = low > row.margin, high < less
    if is_more or is_less:
        return BETTER if is_more == MEASURES[row.measure].more_is_better else WORSE
    return SAME if low >= less and high <= row.margin else CANNOT_TELL


def _worst(verdicts: Sequence[str]) -> str:
    order = (WORSE, CANNOT_TELL, BETTER, SAME)
    return next((one for one in order if one in verdicts), CANNOT_TELL)


def _verdicts(rows: Sequence[GateRow], names: Sequence[str]) -> Iterator[str]:
    for verdict in (WORSE, BETTER, SAME, CANNOT_TELL, TOO_FEW):
        if named := [row.what for row in rows if row.verdict == verdict]:
            yield f"{names[1]} against {names[0]}, {verdict}: {', '.join(named)}."


def _absent(absent: Sequence[str]) -> Iterator[str]:
    if absent:
        yield f"Not in both with requests enough, and not judged: {', '.join(absent)}."


def _advice(rows: Sequence[GateRow]) -> Iterator[str]:
    unsure = [row for row in rows if row.verdict == CANNOT_TELL]
    if incomparable := [row.what for row in unsure if row.change is None]:
        yield (
            f"Not comparable, as what was done differs or was nothing: {', '.join(incomparable)}."
        )
    few = [row for row in unsure if row.change is not None and row.repeats < LEAST_REPEATS]
    if few:
        yield (
            f"With fewer than {LEAST_REPEATS} repeats nobody can tell a difference from chance:"
            " measure each several times, as NAME.1, NAME.2 and so on, or give a margin, such as"
            f" --gate {few[0].measure}=10%."
        )
    elif len(unsure) > len(incomparable):
        yield "Where nobody can tell, more repeats or a wider margin can."
    if any(row.change_low is None and row.verdict in (WORSE, BETTER, SAME) for row in rows):
        yield "What ran once is judged by its margin alone, whatever its own spread is."


def _folders(place: Path) -> list[TraceFolder]:
    found = repeats_of(place)
    if not found:
        raise UsageError(
            f"{place}: there is no trace folder of this name, and none as {place.name}.1",
            hint="name trace folders, made by parse, import or run, or two or more replays of one",
        )
    folders = [TraceFolder(one) for one in found]
    for one in folders:
        if not one.has("requests"):
            raise UsageError(
                f"{one.path} holds no requests of a block device, so it cannot be compared",
                hint="a sweep, and what else was measured alone, has a report for itself",
            )
    return folders


def _measured(
    folder: TraceFolder, left: float | None, needed: set[str]
) -> dict[Key, tuple[float, int]]:
    """Return the measures of a trace with the number of requests that each is of."""
    folder.require("blocks", made_by="classify")
    with query.connect(folder) as connection:
        totals = query.run(connection, "traffic/totals").to_pandas()
        times = query.run(connection, "latency/latency").to_pandas()
    count, duration_ns = int(totals["request_count"].sum()), folder.info.clock.duration_ns
    moved = totals[["read_bytes", "write_bytes", "unknown_bytes"]].to_numpy().sum()
    whole = {
        "requests": count,
        "bytes": moved,
        "footprint": totals["distinct_sectors"].sum() * SECTOR_BYTES,
        "elapsed": duration_ns or None,
        "iops": count * 1e9 / duration_ns if duration_ns else None,
        "gain": left,
    }
    found = {
        (name, *ELAPSED[1:]): (float(value), count)
        for name, value in whole.items()
        if value is not None
    }
    for row in times[times["step"] == RESPONSE].to_dict("records"):
        operation = f"{row['operation']}{'+flush' if row['is_preflush'] else ''}"
        for name in LEAST_REQUESTS:
            key = (name, str(row["role"]), operation)
            found[key] = float(row[f"latency_{name}_ns"]), int(row["request_count"])
    if missing := needed - {key[0] for key in found}:
        raise InputError(
            f"{folder.path}: --gate {sorted(missing)[0]}: the trace does not have it",
            hint="gate what both have; without --gate all of that is shown",
        )
    return found


def _doubts(folders: Sequence[TraceFolder]) -> Iterator[str]:
    """Say each doubt about the traces once, with the names of those that it is of."""
    of: dict[str, list[str]] = defaultdict(list)
    for folder in folders:
        for one in folder.info.warnings:
            of[one.message].append(folder.path.name)
    for message, names in of.items():
        more = f" and {len(names) - 2:,} more" if len(names) > 3 else ""
        yield f"{', '.join(names[:2] if more else names)}{more}: {message}"


def _times_left(folders: Sequence[TraceFolder], *, is_needed: bool) -> dict[Path, float]:
    """Return the time that each recommendation leaves of the base's; none where one cannot be.

    Recommendations for other devices or capacities cannot be compared.
    """
    found: dict[Path, float] = {}
    asked: dict[str, Path] = {}
    for folder in folders:
        try:
            advice = read_recommendation(folder)
        except InputError:
            if is_needed:
                raise
            continue
        answer = advice.answer
        found[folder.path] = answer.elapsed_ns / max(answer.base_elapsed_ns, 1)
        size = format_size(answer.capacity_bytes)
        asked.setdefault(f"{size} of {advice.nvm_profile} on {advice.base_profile}", folder.path)
    if len(asked) < 2:
        return found
    if not is_needed:
        return {}
    (one, first), (other, second), *_ = asked.items()
    raise InputError(
        f"{second}: its recommendation is for {other}, that of {first} for {one}",
        hint="run recommend for both with the same --base, --nvm and --capacity",
    )


def table(gate: Gate) -> list[str]:
    """Return the lines of a table for the terminal."""
    cells = [_head(gate), *map(cells_of, gate.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for what, *numbers, verdict in cells:
        right = [cell.rjust(width) for cell, width in zip(numbers, widths[1:-1], strict=True)]
        lines.append("  ".join([what.ljust(widths[0]), *right, verdict]))
    return lines


def markdown(gate: Gate) -> list[str]:
    """Return the lines of the same as Markdown, for the page of a change."""
    head = _head(gate)
    lines = [
        "| " + " | ".join(escape(cell).replace("|", "\\|") for cell in row) + " |"
        for row in (head, ["---"] * len(head), *map(cells_of, gate.rows))
    ]
    return [
        f"**{gate.after} against {gate.before}: {gate.verdict}**",
        "",
        *lines,
        "",
        *gate.headline,
    ]


def _head(gate: Gate) -> list[str]:
    return ["measure", gate.before, gate.after, "change", "95%", "margin", "verdict"]


def _rounded(change: float) -> float:
    """Return a change in percent with one digit; what rounds to nothing has no sign."""
    return round(change * 100, 1) + 0.0


def cells_of(row: GateRow) -> list[str]:
    """Write the measure, both values, the change and its interval, the margin and the verdict."""
    points = " points" if row.unit == "share" else "%"
    change, *ends = (
        "" if one is None else f"{_rounded(one):+.1f}{points}"
        for one in (row.change, row.change_low, row.change_high)
    )
    band = " to ".join(filter(None, ends))
    margin = f"{row.margin * 100:.3g}{points}"
    shown = (_text(value, row.unit) for value in (row.before, row.after))
    return [row.what, *shown, change, band, margin, row.verdict]


def _text(value: float, unit: str) -> str:
    if unit == "ns":
        return format_duration(value)
    if unit == "bytes":
        return format_size(value)
    return format_share(value) if unit == "share" else f"{value:,.0f}"
