"""The stage: makes a profile of a trace, runs it once to compare, and keeps how far it is off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracekit import __version__, store
from tracekit.errors import UsageError
from tracekit.fit.fidelity import curves, distances
from tracekit.fit.measure import WINDOWS, measure
from tracekit.fit.profile import FitOptions, Fitted, fit_profile
from tracekit.fit.requests import LIMIT, read_requests
from tracekit.fit.toml import toml
from tracekit.schema.fidelity import FIDELITY, FIDELITY_CURVE
from tracekit.store import TraceFolder, scratch_folder
from tracekit.workload.blocks import Extent
from tracekit.workload.folder import write_folder
from tracekit.workload.reader import read_profile

THERE = "choose another --output or pass --force"
ABOUT = """\
A work profile of {requests:,} requests, made by tracekit {version} fit. It holds shares, sizes,
rates and gaps, which requests follow which and how, how far back pages were used before, and how
new ones are shared among extents, by role and process; {names}. It holds
no address, no content and no time of day: the parts of the target have the size of what the trace
touched.
"""


@dataclass(frozen=True)
class Options:
    """How to fit; `limit` is the most requests that are looked at."""

    fit: FitOptions = field(default_factory=FitOptions)
    limit: int = LIMIT
    seed: int = 0
    compares: bool = True
    overwrite: bool = False
    asked: tuple[str, ...] = ()


def fit(
    folder: TraceFolder,
    output: Path,
    *,
    options: Options,
    on_stage: Callable[[str], None] = lambda _stage: None,
) -> dict[str, Any]:
    """Write the profile; keep `fidelity`, `fidelity_curve` and `fidelity.json` in the trace.

    Raise UsageError for a file or folder that is there.
    """
    table = folder.require("requests", made_by="parse")
    store.refuse_folder(output, f"{folder.path.resolve().name}.toml")
    if output.is_file() and not options.overwrite:
        raise UsageError(f"{output} exists already", hint=THERE)
    on_stage("fit")
    requests = read_requests(table, options.limit)
    fitted = fit_profile(requests, options.fit)
    count, span_ns = len(requests.rows), int(requests.rows["time_ns"][-1])
    left_out = dict(requests.left_out)
    del requests
    text = _text(fitted, output, count, keeps_names=options.fit.keeps_names)
    with store.beside(output) as part:
        part.write_text(text, encoding="utf-8")
    result: dict[str, Any] = {
        "trace": str(folder.path),
        "profile": str(output),
        "asked": list(options.asked),
        "requests": count,
        "left_out": left_out,
        "streams": fitted.facts,
        "fidelity": [],
        "headline": [],
    }
    if options.compares:
        on_stage("compare")
        result["fidelity"] = _compare(folder, output, options, count=count, span_ns=span_ns)
        result["headline"] = headline(result["fidelity"])
        store.write_json(folder.path / "fidelity.json", result)
    return result


def _text(fitted: Fitted, output: Path, count: int, *, keeps_names: bool) -> str:
    names = "processes have their names" if keeps_names else "processes are numbered, without names"
    comment = ABOUT.format(requests=count, version=__version__, names=names)
    about = {"name": output.stem, "about": f"made of a trace of {count:,} requests"}
    return toml({**about, **fitted.profile}, comment)


def _compare(
    folder: TraceFolder, output: Path, options: Options, *, count: int, span_ns: int
) -> list[dict[str, Any]]:
    """Make as many requests of the profile, and measure both alike."""
    import pyarrow as pa

    settings: dict[str, Any] = {"limit": options.limit, "window_ns": span_ns / WINDOWS + 1}
    original = measure(folder.table("requests"), **settings)
    with scratch_folder(folder.path / "synthetic") as scratch:
        made = write_folder(
            read_profile(output),
            scratch / "trace",
            extent=Extent(requests=count, seed=options.seed),
            overwrite=False,
            on_rows=lambda _rows: None,
        )
        synthetic = measure(made.table("requests"), **settings)
    rows = distances(original, synthetic)
    shown = curves(original, synthetic)
    for name, content, schema in (
        ("fidelity", rows, FIDELITY), ("fidelity_curve", shown, FIDELITY_CURVE)
    ):  # fmt: skip
        store.write_table(folder.table(name), pa.Table.from_pylist(content, schema))
    return rows


def headline(rows: list[dict[str, Any]]) -> list[str]:
    """Return the distances of all requests in two sentences."""
    of_all = {row["measure"]: row for row in rows if row["role"] == "all"}
    parts = [
        f"{name.replace('_', ' ')} {of_all[name]['largest_gap_ratio'] * 100:.1f} %"
        for name in ("mix", "size", "gap", "run_length", "reuse_distance")
        if name in of_all and of_all[name]["largest_gap_ratio"] is not None
    ]
    lines = [f"Largest difference of cumulative shares: {', '.join(parts)}."]
    misses = of_all.get("miss_ratio")
    if misses and misses["largest_gap_ratio"] is not None:
        lines.append(
            f"Miss ratios of LRU caches differ by {misses['mean_gap'] * 100:.1f} points on average,"
            f" by {misses['largest_gap_ratio'] * 100:.1f} at most."
        )
    return lines
