"""`tracekit import`: a trace of another tool becomes a trace folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import tracekit as tk
from tracekit.choices import ImportFormat, words
from tracekit.commands import options
from tracekit.commands.options import option
from tracekit.errors import escape


@options.of(
    tk.read,
    output=options.NEW_TRACE,
    format=option(
        f"One of {', '.join(words(ImportFormat))}. [default: known by the content]",
        metavar="FORMAT",
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
    delimiter="Between the columns of your own text.",
    unit=option(
        "Unit of time (ns, us, filetime, ms, s, date) or response (those but date), offset or"
        " length (bytes, sectors, pages), in place of the format's; may be repeated.",
        metavar="WHAT=UNIT",
    ),
    force_units="Go on although the units look wrong.",
    max_bad=option("Percent of wrong lines that stop the import.", min=0, max=100),
    force=options.FORCE_TRACE,
)
def import_(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="The trace, compressed or not; - for a pipe. Of OCTF: its folder, or all files.",
        ),
    ],
    *,
