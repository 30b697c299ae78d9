"""Reads `steps.txt`: the commands that both versions run."""

from __future__ import annotations

from pathlib import Path

SAMPLES = ("oltp", "gnuplot", "sysbench", "video", "browser")
SECTIONS: dict[str, tuple[str, ...]] = {
    "sample": SAMPLES,
    "two-samples": ("oltp", "sysbench"),
    "imports": ("",),
    "more": ("",),
    "profile": ("web-server", "paging", "log-structured"),
    "personality": (*("fileserver", "webserver", "webproxy", "varmail", "zip", "unzip", "ffsb"),),
    "files": ("",),
}
"""Sections in the order in which they run, and the names that NAME stands for."""


def read_section(section: str, name: str) -> list[str]:
    """Return the steps of a section for one name."""
    text = Path(__file__).with_name("steps.txt").read_text()
    lines = text.partition(f"\n[{section}]\n")[2].partition("\n[")[0].splitlines()
    return [line.replace("NAME", name) for line in lines if line]


def all_steps() -> list[str]:
    """Return all steps in the order in which they run."""
    return [
        step
        for section, names in SECTIONS.items()
        for name in names
        for step in read_section(section, name)
    ]
