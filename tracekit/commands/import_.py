"""`tracekit import`: a trace of another tool becomes a trace folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.choices import SetEngine, SplitBy
from tracekit.commands import completion, options
from tracekit.commands.options import option
from tracekit.errors import UsageError
from tracekit.units import counted

LARGE_RATE = 100
"""From so many requests a second their number is shown as a whole one."""


@options.of(
    tk.read,
    output=options.NEW_TRACE,
    format=option(
        "One of `tracekit formats`, a format file in the folder of your own, or FILE.toml."
        " [default: known by the content]",
        metavar="FORMAT",
        autocompletion=completion.formats,
    ),
    columns="Columns of your own text: time, op, offset, length, response, device, process and pid"
    " in their order, - for what to pass over, as in: -,time,op,length,offset.",
    regex=option(
        "A regular expression of a line of your own text, with groups named as the columns:"
        " (?P<time>[0-9.]+) and so on.",
        metavar="PATTERN",
    ),
    blkparse_format=option(
        "What was given to blkparse -f, for a text made with it.", metavar="FORMAT"
    ),
    layout="layout.json or an sfdisk dump, of a text of events. [default: layout.json beside it]",
    delimiter="Between the columns of your own text. [default: a comma, or the format file's]",
    unit=option(
        "Unit of time (ns, us, filetime, ms, s, date) or response (those but date), offset or"
        " length (bytes, sectors, pages), in place of the format's; may be repeated.",
        metavar="WHAT=UNIT",
    ),
    force_units="Go on although the units look wrong.",
    join="Where the clock of a text starts again: refuse it, take the parts one after the other"
    " with no pause between them, or as of the same time.",
    op=option(
        "What a word of your trace means: get=read, put=write; read, write, flush, discard, other."
        " May be repeated. Without a word: of all requests of a format that does not say it.",
        metavar="[WORD=]OPERATION",
    ),
    rate=option("Requests a second, of a format without times.", metavar="NUMBER"),
    page=option("Size of a page, of a format that counts pages: 512, 4KiB.", metavar="SIZE"),
    max_bad=option(
        "More percent of wrong lines stop the import. [default: 1; 50 of the lines of compressed"
        " files in which --salvage found damage]",
        min=0,
        max=100,
    ),
    explain="Print how the format and its units were judged, and how other formats fit.",
    salvage="Pass over what is damaged in a text, also in the midst of a compressed one.",
    resume="Go on with an import of the same files to this output that was killed.",
    force=options.FORCE_TRACE,
)
def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="The trace, compressed or not; - for a pipe, or s3://BUCKET/FILE. Of OCTF:"
            " its folder, or all files. Of a log that was rotated: all files, which are read in the"
            " order of their numbers, or of their times where these fall.",
        ),
    ],
    *,
    split_by: Annotated[
        SplitBy | None,
        typer.Option(
            help="Make a trace set, in which each volume (device) of the trace is a trace folder."
        ),
    ] = None,
    engine: Annotated[SetEngine, options.SET_ENGINE] = "local",
    master: Annotated[str | None, options.MASTER] = None,
    as_json: options.Json = False,
    **chosen: Any,
) -> None:
    """Turn a trace of another tool, known by its content, into a trace folder."""
    if split_by is not None:
        place = {"output": options.default_output(sources), **chosen}
        found = tk.read_set(sources, split_by=split_by, engine=engine, master=master, **place)
        options.show(found, as_json=as_json)
        made = next(iter(found.values()))
        if not as_json:
            if chosen.get("explain"):
                _explain(made.summary["inferences"])
            options.say(f"  {counted(made.summary['counts']['bad_lines'], 'wrong line')} left out")
        options.warn(made)
        return
    if engine == "spark" or master:
        raise UsageError("--engine and --master go with --split-by volume")
    made = tk.read(sources, **{"output": options.default_output(sources), **chosen})
    if as_json:
        options.say_json(made.summary)
    else:
        if chosen.get("explain"):
            _explain(made.summary["inferences"])
        _print(made.summary)
    options.warn(made)


def _print(info: Mapping[str, Any]) -> None:
    counts, seconds = info["counts"], info["clock"]["duration_ns"] / 1e9
    span = f"in {seconds:,.3f} s" if "times" not in info.get("unknown", ()) else "without times"
    requests = counts.get("requests", 0)
    if seconds and requests > 1:
        rate = requests / seconds
        span += f", {rate:,.0f} a second" if rate >= LARGE_RATE else f", {rate:.3g} a second"
    what = f"{requests:,} requests of {_devices(info)} {span}"
    if "memory_accesses" in counts:
        what = f"{counts['memory_accesses']:,} memory accesses"
    is_joined = any(one["what"] == "files" for one in info["inferences"])
    several = f", {len(info['source']['files']):,} files" if is_joined else ""
    options.say(f"{what} ({info['source']['format']}{several})")
    kinds = counts["operations"]
    if "operations" in info.get("unknown", ()):
        kinds = {"not known": counts["requests"]}
    for name, rows in kinds.items():
        options.say(f"  {name:<13}{rows:>12,}")
    _print_columns(info.get("completeness", {}).get("columns", {}), rows=counts.get("requests", 0))
    others = {
        "preamble_lines": "before the first request passed over",
        "passed_lines": "without a request passed over",
    }
    for name, what in others.items():
        if lines := counts.get(name):
            options.say(f"  {counted(lines, 'line')} {what}")
    bad = counts["bad_lines"]
    options.say(f"  {counted(bad, 'wrong line')} left out")
    for one in info["inferences"]:
        if one["what"] == "passed over":
            options.say(f"  passed over: {one['value']}")
        if one["what"] == "outliers":
            options.say(f"  {one['value']} of {one['evidence']}")
    options.say(info["trace"])


def _print_columns(columns: Mapping[str, int], *, rows: int) -> None:
    """Print which columns no request has, or a part of them, as one without a completion."""
    partly = {name: count / rows for name, count in columns.items() if 0 < count < rows}
    said = [f"{share:.1%} have {name}" for name, share in partly.items()]
    if lacking := [name for name, count in columns.items() if not count]:
        said.insert(0, f"none has {', '.join(lacking)}")
    if said:
        options.say(f"  {'; '.join(said)}")


def _explain(inferences: Sequence[Mapping[str, Any]]) -> None:
    """Print what was concluded, each with its evidence."""
    width = max((len(one["what"]) for one in inferences), default=0)
    for one in inferences:
        options.say(f"{one['what']:<{width}}  {one['value']} ({one['evidence']})")


def _devices(info: Mapping[str, Any]) -> str:
    names = [device["device"] for device in info["devices"]]
    return str(names[0]) if len(names) == 1 else f"{len(names):,} devices"
