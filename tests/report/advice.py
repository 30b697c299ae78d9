"""A recommendation by hand: round numbers, and one change of the answer."""

from pathlib import Path
from typing import Any

from tests.traces import filled
from tracekit.store import write_json, write_table
from tracekit.tables import PLACEMENT
from tracekit.units import MIB


def write_recommendation(path: Path) -> None:
    """Write `simulations/placement` and recommendation.json."""
    (path / "simulations").mkdir()
    points = []
    for step in range(5):
        left = {"fs": 1 - step / 10, "journal": 1 - step / 20, "combined": 1 - step / 8}
        for coverage in ("hottest", "start"):
            for placement in ("fs", "journal", "combined"):
                points.append(_point(placement, coverage, step, left[placement]))
        points.append(_point("base", "none", step, 1.0))
        points.append(_point("optimal", "hottest", step, 1 - step / 7))
    table = filled(PLACEMENT, points)
    write_table(path / "simulations" / "placement.parquet", table)
    write_json(path / "recommendation.json", _recommendation())


def _point(placement: str, coverage: str, step: int, left: float) -> dict[str, Any]:
    return {
        "base_profile": "hdd-7200",
        "nvm_profile": "dax-pcm",
        "placement": placement,
        "coverage": coverage,
        "capacity_bytes": step * MIB,
        "elapsed_ns": round(left * 40_000_000_000),
    }


def _answer(step: int, placement: str) -> dict[str, Any]:
    return {
        "capacity_bytes": step * MIB,
        "placement": placement,
        "fs_bytes": step * MIB,
        "journal_bytes": 0,
        "swap_bytes": 0,
        "elapsed_ns": 30_000_000_000,
        "base_elapsed_ns": 40_000_000_000,
        "gain_ratio": 0.25,
        "runner_up": "journal",
        "runner_up_elapsed_ns": 36_000_000_000,
        "margin_ratio": 1 / 6,
        "optimal_elapsed_ns": 29_000_000_000,
    }


def _recommendation() -> dict[str, Any]:
    profile = {
        "name": "hdd-7200",
        "about": "a disk",
        "read_latency_us": 12_700.0,
        "write_latency_us": 13_700.0,
        "read_mib_s": 149.0,
        "write_mib_s": 149.0,
        "flush_us": 8_333.0,
        "fua_us": 8_333.0,
        "price_per_gb": 1.0,
    }
    return {
        "base_profile": "hdd-7200",
        "nvm_profile": "dax-pcm",
        "profiles": [profile, {**profile, "name": "dax-pcm", "read_latency_us": 2.34}],
        "level": "issued",
        "coverage": "hottest",
        "headline": [
            "Place 2 MiB of the file system.",
            "The journal is behind.",
            "It changes once.",
        ],
        "answer": _answer(2, "fs"),
        "answers": [_answer(step, "fs" if step < 3 else "combined") for step in range(5)],
        "flips": [{"capacity_bytes": 3 * MIB, "from": "fs", "to": "combined"}],
        "single_role_flips": [],
        "knee": _answer(3, "combined"),
        "best": _answer(4, "combined"),
        "footprint_bytes": 4 * MIB,
        "assumptions": ["requests are served one after another"],
    }
