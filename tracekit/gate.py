"""Gates: whether traces or replays after a change are better, worse or the same as before it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tracekit import query
from tracekit.compare import CANNOT_TELL, ELAPSED, Group, Key, Row, Values, table_rows
from tracekit.errors import InputError, UsageError
from tracekit.escapes import escape
from tracekit.metadata import Record
from tracekit.model.answer import read_recommendation
from tracekit.store import TraceFolder
from tracekit.units import SECTOR_BYTES, format_duration, format_share, format_size

BETTER, WORSE, SAME, TOO_FEW = "better", "worse", "same", "too few requests"
MARGIN = 0.05
"""Share by which a measure may differ and still be the same, where the gate names none."""
LEAST_REQUESTS = {"avg": 100, "p50": 100, "p99": 1000}
"""Of fewer a mean or a percentile says nothing: ten requests are beyond a p99 of so many."""
KEY = ("measure", "role", "operation")
RESPONSE = "q2c"
"""The step whose times are compared: from the queue to the completion."""
_ENTRY = re.compile(r"(?P<measure>[a-z0-9]+)(?:=(?P<percent>\d{1,3}(?:\.\d{1,3})?) ?%)?")
_REPEAT = re.compile(r"(?P<name>.+)\.(?P<number>[1-9]\d*)")


class Measure(NamedTuple):
    """What can be gated: how it is written, and in which direction it is better."""

    unit: str  # ns, bytes, requests, rate (requests a second), share (of the base's time)
    is_of_replays: bool = False
    more_is_better: bool = False


MEASURES: Mapping[str, Measure] = {
    "gain": Measure("share"),
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

`gain` is kept as the time with the recommended NVM, as a share of the base's time.
"""


class GateRow(Record):
    """One measure before and after the change; ratio and interval are of after to before."""

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
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    margin: float
    """Share by which it may differ and still be the same."""
    verdict: str

    @property
    def what(self) -> str:
        """The measure with the requests it is of."""
        return _what(self.measure, self.role, self.operation)


def _what(measure: str, role: str, operation: str) -> str:
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
    if (place / "trace.json").is_file():
        return [place]
    try:
        beside = [one for one in place.parent.iterdir() if (one / "trace.json").is_file()]
    except OSError:
        return []
    found = [
        (int(match["number"]), one)
        for one in beside
        if (match := _REPEAT.fullmatch(one.name)) and match["name"] == place.name
    ]
    return [one for _, one in sorted(found)]


def traces(before: Path, after: Path, *, gate: str = "") -> Gate:
    """Compare traces before and after a change; each may be several, as NAME.1, NAME.2 and so on.

    Without a gate all measures are compared that both have; one of the gate that one side lacks is
    an InputError.
    """
    places = before.absolute(), after.absolute()
    if places[0] == places[1]:
        raise UsageError(f"{before} would be compared with itself: name two trace folders")
    folders = [_folders(place) for place in places]
    wanted = parse_gate(gate) if gate else dict.fromkeys(MEASURES)
    needed = {*wanted} if gate else set()
    both = [one for side in folders for one in side]
    left = _times_left(both, is_needed="gain" in needed) if "gain" in wanted else {}
    is_clear = before.name != after.name
    names = (before.name, after.name) if is_clear else (str(before), str(after))
    groups = []
    for name, side in zip(names, folders, strict=True):
        values: Values = defaultdict(dict)
        for folder in side:
            for key, cell in _measured(folder, left.get(folder.path), needed).items():
                if key[0] in wanted:
                    values[key][folder.path.name] = cell
        groups.append(Group(name, values))
    found = judge(table_rows(groups), wanted, names=names, is_gated=bool(gate))
    found.warnings = [*_doubts(both)]
    return found


def parse_replay_gate(text: str) -> dict[str, float | None]:
    """Return the same of measures that a replay has."""
    return parse_gate(text, known=[name for name, one in MEASURES.items() if one.is_of_replays])


def replays(
    rows: Sequence[Row], *, names: tuple[str, str], wanted: Mapping[str, float | None]
) -> Gate:
    """Judge rows of a comparison of replays; their times are service times."""
    timed = [{**row, "measure": row["measure"].removeprefix("service_")} for row in rows]
    return judge(timed, wanted, names=names)


def judge(
    rows: Sequence[Row],
    wanted: Mapping[str, float | None],
    *,
    names: tuple[str, str],
    is_gated: bool = True,
) -> Gate:
    """Return the verdict on each row of the second name, and the worst of them all."""
    before, after = (
        {tuple(row[part] for part in KEY): row for row in rows if row["name"] == name}
        for name in names
    )
    found = [
        _row(after[key], before[key], margin=margin)
        for measure, margin in wanted.items()
        for key in after
        if key[0] == measure and key in before
    ]
    verdicts = [row.verdict for row in found]
    only = [_what(*key) for key in {**before, **after} if (key in before) != (key in after)]
    missing = [one for one in wanted if not any(row.measure == one for row in found)]
    return Gate(
        before=names[0],
        after=names[1],
        is_gated=is_gated,
        verdict=CANNOT_TELL if is_gated and missing else _worst(verdicts),
        headline=[*_verdicts(found, names), *_absent(missing, only), *_advice(found)],
        rows=found,
    )


def _row(after: Row, before: Row, *, margin: float | None) -> GateRow:
    measure = str(after["measure"])
    requests = min(after["request_count"], before["request_count"])
    ratio, low, high = (after[end] for end in ("ratio", "ratio_low", "ratio_high"))
    if requests < LEAST_REQUESTS.get(measure, 0):
        verdict = TOO_FEW
    elif before["time_ns"] == after["time_ns"] == 0:
        verdict = SAME
    elif low is None and margin is not None:
        verdict = _verdict(ratio, ratio, measure, margin=margin)
    else:
        verdict = _verdict(low, high, measure, margin=MARGIN if margin is None else margin)
    return GateRow(
        measure=measure,
        role=after["role"],
        operation=after["operation"],
        unit=MEASURES[measure].unit,
        before=before["time_ns"],
        after=after["time_ns"],
        repeats=min(after["repeats"], before["repeats"]),
        requests=requests,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        margin=MARGIN if margin is None else margin,
        verdict=verdict,
    )


def _verdict(low: float | None, high: float | None, measure: str, *, margin: float) -> str:
    """Return what an interval of the ratio says: the whole of it must be on one side."""
    if low is None or high is None:
        return CANNOT_TELL
    if MEASURES[measure].more_is_better:
        low, high = 1 / high, 1 / low
    most = 1 + margin
    if low > most:
        return WORSE
    if high < 1 / most:
        return BETTER
    return SAME if low >= 1 / most and high <= most else CANNOT_TELL


def _worst(verdicts: Sequence[str]) -> str:
    order = (WORSE, CANNOT_TELL, BETTER, SAME)
    return next((one for one in order if one in verdicts), CANNOT_TELL)


def _verdicts(rows: Sequence[GateRow], names: tuple[str, str]) -> Iterator[str]:
    for verdict in (WORSE, BETTER, SAME, CANNOT_TELL, TOO_FEW):
        if named := [row.what for row in rows if row.verdict == verdict]:
            yield f"{names[1]} against {names[0]}, {verdict}: {', '.join(named)}."


def _absent(missing: Sequence[str], only: Sequence[str]) -> Iterator[str]:
    rest = [one for one in only if one.partition(" ")[0] not in missing]
    if missing or rest:
        yield f"Not in both, and not compared: {', '.join([*missing, *rest])}."


def _advice(rows: Sequence[GateRow]) -> Iterator[str]:
    unsure = [row for row in rows if row.verdict == CANNOT_TELL]
    if any(row.ratio_low is None for row in unsure):
        yield (
            "What was not repeated cannot be told from chance: measure each several times, as"
            " NAME.1, NAME.2 and so on, or give a margin, such as"
            f" --gate {unsure[0].measure}=10%."
        )
    elif unsure:
        yield "Where nobody can tell, more repeats or a wider margin can."
    if any(row.ratio_low is None and row.verdict in (WORSE, BETTER, SAME) for row in rows):
        yield "What ran once is judged by its margin alone, whatever its own spread is."


def _folders(place: Path) -> list[TraceFolder]:
    found = repeats_of(place)
    if not found:
        raise UsageError(
            f"{place}: there is no trace folder of this name, and none as {place.name}.1",
            hint="name trace folders, made by parse, import or run, or two or more replays of one",
        )
    return [TraceFolder(one) for one in found]


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
    """Say each kind of doubt about the traces once, with the names of those that it is of."""
    of: dict[str, list[str]] = defaultdict(list)
    messages: dict[str, str] = {}
    for folder in folders:
        for one in folder.info.warnings:
            of[one.code].append(folder.path.name)
            messages.setdefault(one.code, one.message)
    for code, names in of.items():
        more = f" and {len(names) - 2:,} more" if len(names) > 3 else ""
        yield f"{', '.join(names[:2] if more else names)}{more}: {messages[code]}"


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
            return {}
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
    cells = [_head(gate), *map(_cells, gate.rows)]
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
        for row in (head, ["---"] * len(head), *map(_cells, gate.rows))
    ]
    return [
        f"**{gate.after} against {gate.before}: {gate.verdict}**",
        "",
        *lines,
        "",
        *gate.headline,
    ]


def _head(gate: Gate) -> list[str]:
    return ["measure", gate.before, gate.after, "change", "95 %", "margin", "verdict"]


def _cells(row: GateRow) -> list[str]:
    change = "" if row.ratio is None else f"{row.ratio - 1:+.1%}"
    ends = [one for one in (row.ratio_low, row.ratio_high) if one is not None]
    band = " to ".join(f"{one - 1:+.1%}" for one in ends)
    shown = (_text(value, row.unit) for value in (row.before, row.after))
    return [row.what, *shown, change, band, f"{row.margin * 100:.3g} %", row.verdict]


def _text(value: float, unit: str) -> str:
    if unit == "ns":
        return format_duration(value)
    if unit == "bytes":
        return format_size(value)
    return format_share(1 - value) if unit == "share" else f"{value:,.0f}"
