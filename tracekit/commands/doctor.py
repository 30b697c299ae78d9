"""`tracekit doctor`: what this machine can do, and what to install."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

import tracekit as tk
from tracekit.commands import options
from tracekit.escapes import bare, escape

if TYPE_CHECKING:
    from tracekit.doctor import Result


MARKS = {"ok": "ok", "limited": "in part", "missing": "missing", "broken": "fails"}
COLORS = {"ok": "green", "limited": "yellow", "missing": "yellow", "broken": "red"}


def doctor(
    as_json: options.Json = False,
) -> None:
    """Say what this machine can do for tracekit, and what to install for the rest."""
    from tracekit.doctor import core_works

    results = tk.doctor()
    works = core_works(results)
    if as_json:
        options.say_json(_as_json(results, works=works))
    else:
        _print_table(results)
        typer.echo("\nThe core works." if works else "\nThe core does not work: see BROKEN above.")
    if not works:
        raise typer.Exit(1)


def _as_json(results: list[Result], *, works: bool) -> dict[str, object]:
    return {
        "core_works": works,
        "checks": [
            {
                "group": group.title,
                "name": check.name,
                "status": finding.status,
                "detail": finding.detail,
                "purpose": check.purpose,
                "remedy": finding.remedy,
                "required": check.is_required,
            }
            for group, check, finding in results
        ],
    }


def _print_table(results: list[Result]) -> None:
    width = max(len(check.name) for _, check, _ in results)
    title = ""
    out = bare(sys.stdout)  # colours are our own
    for group, check, finding in results:
        if group.title != title:
            title = group.title
            typer.secho(f"\n{title}", bold=True, file=out)
        is_fatal = check.is_required and finding.status != "ok"
        word = "BROKEN" if is_fatal else MARKS[finding.status]
        mark = typer.style(f"{word:8}", fg="red" if is_fatal else COLORS[finding.status])
        typer.echo(f"  {check.name:{width}}  {mark} {escape(finding.detail)}", file=out)
        if finding.status != "ok":
            typer.echo(f"  {'':{width}}           for: {check.purpose}")
        if finding.status != "ok" and finding.remedy:
            options.say(f"  {'':{width}}           do:  {finding.remedy}")
