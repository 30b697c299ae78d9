"""How far the requests of a profile are from those of the trace, distance by distance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tracekit.fit.measure import ALL, PAGE_BYTES, Floats, Measured, Scope

SAMPLE = 1_000_000
DISTRIBUTIONS = (("size", "sizes", "bytes"), ("gap", "gaps", "ns"),
                 ("run_length", "run_lengths", "requests"))  # fmt: skip


def distances(original: Measured, synthetic: Measured) -> list[dict[str, Any]]:
    """Return the rows of the table `fidelity`, for the roles that both have."""
    rows: list[dict[str, Any]] = []
    for role, scope in original.scopes.items():
        if role in synthetic.scopes:
            rows += [{"role": role, **row} for row in _of_scope(scope, synthetic.scopes[role])]
        if role == ALL:
            rows += [{"role": role, **row} for row in _of_reuse(original, synthetic)]
    return rows


def curves(original: Measured, synthetic: Measured) -> list[dict[str, Any]]:
    """Return the rows of the table `fidelity_curve`, up to where neither curve falls any more."""
    last = max(_flat_from(original.miss_ratios), _flat_from(synthetic.miss_ratios)) + 1
    return [
        {"source": name, "size_bytes": int(size) * PAGE_BYTES, "miss_ratio": float(ratio)}
        for name, of in (("original", original), ("synthetic", synthetic))
        for size, ratio in zip(of.sizes[:last], of.miss_ratios[:last], strict=True)
    ]


def _flat_from(ratios: Floats) -> int:
    return int(np.flatnonzero(ratios <= ratios[-1] + 1e-12)[0])


def _row(measure: str, unit: str, counts: tuple[int, int], **more: float | None) -> dict[str, Any]:
    values = dict.fromkeys(("original_mean", "synthetic_mean", "largest_gap_ratio", "mean_gap"))
    found = {name: None if v is None or not math.isfinite(v) else v for name, v in more.items()}
    return {
        "measure": measure,
        "unit": unit,
        "original_count": counts[0],
        "synthetic_count": counts[1],
        **values,
        **found,
    }


def _of_scope(one: Scope, other: Scope) -> Iterator[dict[str, Any]]:
    totals = sum(one.mix.values()), sum(other.mix.values())
    kinds = {*one.mix, *other.mix}
    apart = sum(
        abs(one.mix.get(kind, 0) / totals[0] - other.mix.get(kind, 0) / totals[1]) for kind in kinds
    )
    yield _row("mix", "ratio", totals, largest_gap_ratio=apart / 2)
    for name, attribute, unit in DISTRIBUTIONS:
        first, second = getattr(one, attribute), getattr(other, attribute)
        counts = len(first), len(second)
        if not all(counts):
            yield _row(name, unit, counts)
            continue
        largest, mean = compared(first, second)
        gaps = {"largest_gap_ratio": largest, "mean_gap": mean}
        means = {"original_mean": float(first.mean()), "synthetic_mean": float(second.mean())}
        yield _row(name, unit, counts, **means, **gaps)
    for name in ("dispersion", "correlation"):
        values = getattr(one, name), getattr(other, name)
        shown = "gap_correlation" if name == "correlation" else name
        yield _row(shown, "ratio", totals, original_mean=values[0], synthetic_mean=values[1])


def compared(first: Floats, second: Floats) -> tuple[float, float]:
    """Return the distances of Kolmogorov and Smirnov, and of Wasserstein, of a million each."""
    from scipy import stats

    first, second = (values[:: -(-len(values) // SAMPLE)] for values in (first, second))
    every = np.sort(np.concatenate([first, second]))
    cumulated = [
        np.searchsorted(np.sort(values), every, side="right") / len(values)
        for values in (first, second)
    ]
    largest = float(np.abs(cumulated[0] - cumulated[1]).max())
    return largest, float(stats.wasserstein_distance(first, second))


def _of_reuse(one: Measured, other: Measured) -> Iterator[dict[str, Any]]:
    counts = one.references, other.references
    if not all(counts):
        yield _row("miss_ratio", "ratio", counts)
        return
    shares = [
        of.distances / of.distances[-1] if of.distances[-1] else of.distances for of in (one, other)
    ]
    sizes = one.sizes.astype(np.float64)
    means = [_mean_distance(share, sizes) for share in shares]
    if one.distances[-1] and other.distances[-1]:
        apart = np.abs(shares[0] - shares[1])
        yield _row("reuse_distance", "pages of 4 KiB", counts, original_mean=means[0],
                   synthetic_mean=means[1], largest_gap_ratio=float(apart.max()),
                   mean_gap=float((apart[:-1] * np.diff(sizes)).sum()))  # fmt: skip
    last = max(_flat_from(one.miss_ratios), _flat_from(other.miss_ratios)) + 1
    gap = np.abs(one.miss_ratios - other.miss_ratios)[:last]
    yield _row("miss_ratio", "ratio", counts, original_mean=float(one.miss_ratios[:last].mean()),
               synthetic_mean=float(other.miss_ratios[:last].mean()),
               largest_gap_ratio=float(gap.max()), mean_gap=float(gap.mean()))  # fmt: skip


def _mean_distance(share: npt.NDArray[np.float64], sizes: Floats) -> float:
    return float((np.diff(share, prepend=0) * sizes).sum())
