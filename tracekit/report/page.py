"""What the page contains: one function a section, in the order of the page.

A section of a simulation that was not run is None: it is not missing.
"""

from __future__ import annotations

import base64
import hashlib
import io
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateError
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tracekit.errors import InputError, UsageError, first_line
from tracekit.escapes import escape_lines, operand, shell_line
from tracekit.fleet.catalogue import TraceSet
from tracekit.paths import data_folder
from tracekit.report import charts
from tracekit.report import formatting as fmt
from tracekit.report.charts import Key
from tracekit.report.inputs import Inputs
from tracekit.report.section import BuildSection, Chart, Missing, Section, evidence_view
from tracekit.report.sections import (
    applications,
    buffer,
    caches,
    counters,
    device,
    files,
    front,
    latency,
    locality,
    placement,
    replay,
    side_by_side,
    tiers,
    traffic,
    volumes,
)
from tracekit.store import TraceFolder, beside, refuse_taken
from tracekit.version import __version__

SECTIONS: tuple[BuildSection, ...] = (
    *(front.answer, front.warnings),
    *(placement.capacity, placement.sensitivity, placement.endurance, placement.purchase),
    placement.verification,
    *(caches.rivals, tiers.tiers, caches.cache, buffer.buffer),
    *(traffic.totals, applications.applications),
    *(locality.coverage, locality.files_of_blocks, locality.footprint, locality.heat_map),
    *(traffic.mix, traffic.sizes, latency.commits, traffic.throughput, latency.interarrival),
    *(traffic.sequentiality, latency.latency, latency.depth, traffic.processes),
    traffic.cgroups,
    *(files.file_operations, replay.replay, replay.comparison),
    *(device.device, files.dax, files.file_runs, counters.counters),
    *(replay.fidelity, front.layout, front.provenance, front.reproduce),
)

MEASURED: tuple[BuildSection, ...] = (
    *(buffer.buffer, files.file_operations, device.device, files.dax, files.file_runs),
    *(counters.counters, front.provenance, front.reproduce),
)
"""The sections of a folder without requests: what was measured or recorded, and how."""


THEMES = {
    **{build.__name__: build.__module__.rpartition(".")[2] for build in SECTIONS},
    **dict.fromkeys(("side_by_side", "overlaid"), "side_by_side"),
    **{build.__name__: "volumes" for build in volumes.SET_SECTIONS},
}
"""The module of each section, whose template has a macro of the section's name."""


GENERATOR = b'<meta name="generator" content="tracekit '


@dataclass(frozen=True)
class Report:
    """Where the report is, and what is missing: command to the sections that it would add."""

    path: Path
    missing: dict[str, list[str]]

    def as_dict(self) -> dict[str, Any]:
        """Return the content for JSON."""
        return {"report": str(self.path), "missing": self.missing}


def report(folder: TraceFolder, output: Path) -> Report:
    """Write the report of a trace folder to `output`, replacing an earlier report in one step.

    Another file that is there stays: UsageError. The same folder gives the same bytes. Tables that
    no stage has made are named in the report, with the command that makes them. InputError when a
    table or a summary cannot be read.
    """
    refuse_taken(output, overwrite=_is_report(output), can_force=False)
    inputs = Inputs(folder)
    shown_path = folder.path.resolve().name
    chosen = SECTIONS if inputs.has_trace else MEASURED
    with _strange_content(folder.path):
        built = [_built(build, inputs) for build in chosen]
        missing = _by_command([part for part in built if isinstance(part, Missing)], shown_path)
        text = render(
            title=fmt.printable(shown_path),
            sections=[part for part in built if isinstance(part, Section)],
            missing=missing,
        )
    _write(output, text)
    return Report(output, missing)


def report_side_by_side(places: Sequence[Path], output: Path) -> Report:
    """Write the page of several traces, or of replays of the first, in the same way.

    UsageError for places that are neither.
    """
    refuse_taken(output, overwrite=_is_report(output), can_force=False)
    with _strange_content(places[0]):
        sections = side_by_side.side_by_side(places)
        text = render(title=side_by_side.title(sections[0]), sections=sections, missing={})
    _write(output, text)
    return Report(output, {})


def report_set(traces: TraceSet, output: Path) -> Report:
    """Write the page of a trace set in the same way; links lead to the reports of its volumes.

    InputError for a set without volumes.
    """
    refuse_taken(output, overwrite=_is_report(output), can_force=False)
    if not traces.volumes:
        hint = (
            f"add some: {shell_line(['tracekit', 'set', 'add', operand(str(traces.path))])} TRACE"
        )
        raise InputError(f"{traces.path}: there is no volume to report of", hint=hint)
    shown_path = traces.path.resolve().name
    with _strange_content(traces.path):
        sections, missing = volumes.sections_of(traces, output.resolve().parent)
        commands = _by_command(missing, shown_path)
        text = render(title=fmt.printable(shown_path), sections=sections, missing=commands)
    _write(output, text)
    return Report(output, commands)


def _write(output: Path, text: str) -> None:
    with beside(output, overwrite=_is_report(output)) as part:  # which may be of another by now
        part.write_text(text, encoding="utf-8")


def _built(build: BuildSection, inputs: Inputs) -> Section | Missing | None:
    """Build a section that says which of what it shows is outdated."""
    part, old = inputs.built(build)
    return replace(part, outdated=old) if isinstance(part, Section) else part


def _is_report(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        begin = opened.read(4096)
    return not begin or GENERATOR in begin


_STRANGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


@contextmanager
def _strange_content(place: Path) -> Iterator[None]:
    """Turn what sections fail with on tables and answers that no stage writes into InputError.

    Stages check what they read. A page shows nearly all that a folder has, most of it as it is.
    """
    try:
        yield
    except (*_STRANGE, TemplateError) as error:
        *_, last = traceback.extract_tb(error.__traceback__)
        raise InputError(
            f"{place}: {type(error).__name__} of a table or an answer: {first_line(error)}"
            f" ({Path(last.filename).name}, line {last.lineno})",
            hint="run the stages again; if they wrote it as it is, please report this",
        ) from error


def render(*, title: str, sections: list[Section], missing: dict[str, list[str]]) -> str:
    """Return the page; text from the trace is escaped wherever it stands."""
    reports = data_folder("reports")
    style = "\n".join([charts.style(), *_texts(reports, "uplot/uPlot.min.css", "style.css")])
    script = "\n".join(_texts(reports, "uplot/uPlot.iife.min.js", "page.js", "explore.js"))
    environment = Environment(
        loader=FileSystemLoader(reports),
        autoescape=True,
        finalize=_escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    writers = (charts.colour_name, fmt.count, fmt.data, fmt.duration, fmt.number, fmt.share)
    environment.filters.update({write.__name__: write for write in (*writers, fmt.printable)})
    # SVG is of charts.py, whose texts the XML writer has made text.
    environment.filters.update(
        drawing=lambda svg: Markup(escape_lines(svg)),  # noqa: S704
        view=evidence_view,
    )
    return environment.get_template("page.html.j2").render(
        title=title,
        version=__version__,
        sections=sections,
        themes=THEMES,
        commands=missing,
        style=Markup(style),  # noqa: S704 - our own file
        style_hash=_csp_hash(style),
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=_csp_hash(script),
    )


def _texts(folder: Path, *names: str) -> Iterator[str]:
    return ((folder / name).read_text(encoding="utf-8") for name in names)


def _escaped(value: Any) -> Any:
    """Return what is written into the page; autoescape then makes it text of HTML."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return escape_lines(value) if is_text else value


def _by_command(missing: list[Missing], folder_name: str) -> dict[str, list[str]]:
    commands: dict[str, list[str]] = {}
    for part in missing:
        command = shell_line(["tracekit", *part.stage.split(), operand(folder_name)])
        commands.setdefault(command, []).append(part.title)
    return commands


def _csp_hash(text: str) -> str:
    """Return the source expression that allows exactly this inline style or script."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def find_figures(folder: TraceFolder, section: str = "") -> dict[str, Chart]:
    """Return the figures of a section of the report, or of all, by name, but empty ones."""
    inputs = Inputs(folder)
    wanted = [build for build in SECTIONS if section in ("", build.__name__)]
    with _strange_content(folder.path):
        built = [build(inputs) for build in wanted if inputs.has_trace or build.__name__ == section]
    return {
        figure.name: figure
        for part in built
        if isinstance(part, Section)
        for figure in _figures(part.parts)
        if not figure.table.empty
    }


def _figures(part: Any) -> Iterator[Chart]:
    if isinstance(part, Chart):
        yield part
    elif isinstance(part, Mapping):
        for value in part.values():
            yield from _figures(value)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from _figures(value)


def draw_axes(figures: Mapping[str, Chart], name: str | None, *, where: str) -> Axes:
    """Draw the figure of that name, or the first; UsageError when there is none."""
    if not figures:
        raise UsageError(f"{where}: there is nothing to draw yet", hint="run the stage before")
    if name is not None and name not in figures:
        raise UsageError(f"{where} has no figure '{name}'", hint=f"there are: {', '.join(figures)}")
    figure = figures[name or next(iter(figures))]
    drawn = figure.draw(figure.table, charts.WIDE)
    axes = drawn.axes[0]
    drawn.suptitle(figure.title, x=0.01, horizontalalignment="left")
    if figure.legend:
        handles = [_handle(key) for key in figure.legend]
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    # These axes belong to no window of pyplot, so they show themselves.
    axes._repr_png_ = lambda: _png(axes)  # type: ignore[attr-defined]
    return axes


def _handle(key: Key) -> Line2D:
    colour = charts.light(key.colour)
    if key.line == "box":
        return Line2D(
            [], [], color=colour, marker="s", linestyle="none", label=key.text, alpha=key.opacity
        )
    line = Line2D([], [], color=colour, label=key.text)
    line.set_linestyle(cast("Any", key.line))
    return line


def _png(axes: Axes) -> bytes:
    content = io.BytesIO()
    figure = axes.get_figure(root=True)
    if figure is not None:
        figure.savefig(content, format="png", dpi=120)
    return content.getvalue()
