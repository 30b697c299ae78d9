"""Render the report: one HTML file that needs no network and runs no code but its own."""

from __future__ import annotations

import base64
import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tracekit.paths import data_folder
from tracekit.report import formatting as fmt
from tracekit.report import svg
from tracekit.report.contents import MEASURED, SECTIONS
from tracekit.report.inputs import Inputs
from tracekit.report.section import Missing, Section, evidence_view
from tracekit.store import TraceFolder, beside
from tracekit.version import __version__


@dataclass(frozen=True)
class Report:
    """Where the report is, and which parts it lacks: command to the titles of what it would add."""

    path: Path
    missing: dict[str, list[str]]

    def as_dict(self) -> dict[str, Any]:
        """Return the content for JSON."""
        return {"report": str(self.path), "missing": self.missing}


def report(folder: TraceFolder, output: Path) -> Report:
    """Write the report of a trace folder to `output`, replacing it in one step.

    The same folder gives the same bytes. Tables that no stage has made are named in the report,
    with the command that makes them. InputError when a table or a summary cannot be read.
    """
    inputs = Inputs(folder)
    shown_path = folder.path.resolve().name
    chosen = SECTIONS if inputs.has_trace else MEASURED
    built = [build(inputs) for build in chosen]
    missing = _by_command([part for part in built if isinstance(part, Missing)], shown_path)
    text = render(
        title=fmt.printable(shown_path),
        sections=[part for part in built if isinstance(part, Section)],
        missing=missing,
    )
    with beside(output) as part:
        part.write_text(text, encoding="utf-8")
    return Report(output, missing)


def render(*, title: str, sections: list[Section], missing: dict[str, list[str]]) -> str:
    """Return the page; text from the trace is escaped wherever it stands."""
    from markupsafe import Markup

    style = "\n".join(
        (svg.style(), (data_folder("reports") / "style.css").read_text(encoding="utf-8"))
    )
    script = (data_folder("reports") / "page.js").read_text(encoding="utf-8")
    page: str = (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            version=__version__,
            sections=sections,
            commands=missing,
            style=Markup(style),  # noqa: S704 - our own file
            style_hash=_csp_hash(style),
            script=Markup(script),  # noqa: S704 - our own file
            script_hash=_csp_hash(script),
        )
    )
    return page


def _environment() -> Any:
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(data_folder("reports")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=fmt.count,
        data=fmt.data,
        duration=fmt.duration,
        number=fmt.number,
        share=fmt.share,
        printable=fmt.printable,
        drawing=Markup,  # SVG from svg.py, whose texts are escaped by the XML writer
        view=evidence_view,
    )
    return environment


def _by_command(missing: list[Missing], folder_name: str) -> dict[str, list[str]]:
    commands: dict[str, list[str]] = {}
    for part in missing:
        command = f"tracekit {part.stage} {shlex.quote(folder_name)}"
        commands.setdefault(command, []).append(part.title)
    return commands


def _csp_hash(text: str) -> str:
    """Return the source expression that allows exactly this inline style or script."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
