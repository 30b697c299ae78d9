"""Groups of volumes that behave alike, by their measures, each with a typical member."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from msgspec import to_builtins
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

from tracekit.arrow import read_whole
from tracekit.errors import InputError
from tracekit.fleet.catalogue import TraceSet, opened
from tracekit.metadata import Record
from tracekit.store import INFO_NAME, TraceFolder

RESULT = "groups.json"
NEEDED = ("findings/volume_totals.parquet", "findings/skew.parquet")
"""What is read of each volume."""
MOST_GROUPS = 8
ITERATIONS = 50
MOST_COMPARED = 2000
TINY = 1e-300
TRIES = 8
"""First centres, of which those with the closest members are taken."""
TOLD_DEVIATIONS = 0.5
"""A measure is told of a group whose mean is so many standard deviations from that of all."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Measure:
    """A measure of a volume, by its name in the findings; what spans decades counts by its log."""

    name: str
    words: tuple[str, str]
    """What volumes are of which it is low, and high."""
    is_log: bool = False

    def value(self, found: Mapping[str, Any]) -> float:
        """Return what volumes are compared by; NaN where it is not known."""
        value = found.get(self.name)
        if value is None or (self.is_log and value <= 0):
            return math.nan
        return math.log10(value) if self.is_log else float(value)


MEASURES = (
    Measure("average_per_s", ("quiet", "busy"), is_log=True),
    Measure("burstiness", ("steady", "bursty"), is_log=True),
    Measure("working_set_bytes", ("small", "large"), is_log=True),
    Measure("write_ratio", ("read", "written")),
    Measure("random_ratio", ("sequential", "random")),
    Measure("update_coverage_ratio", ("rarely updated", "often updated")),
    Measure("read_top_10_ratio", ("reads spread", "reads skewed")),
    Measure("write_top_10_ratio", ("writes spread", "writes skewed")),
)


class Group(Record):
    """Volumes that are alike."""

    volumes: list[str]
    typical: str
    """The member nearest to the middle of the group."""
    requests: int
    traits: list[str]
    """In what its mean differs most from that of all volumes."""
    medians: dict[str, float | None]


class Groups(Record, kw_only=True):
    """The content of groups.json."""

    groups: list[Group]
    """The one with most requests first."""
    silhouette: float | None
    """How well they are apart, -1 to 1, by which their number was chosen; None: one group."""
    left_out: dict[str, str] = msgspec.field(default_factory=dict)


def find_groups(traces: TraceSet) -> Groups:
    """Group the volumes of a set by what `analyze` measured of them; write groups.json.

    Each measure counts in standard deviations of all volumes. k-means with 2 to 8 groups; their
    number is that with the largest silhouette. InputError where no volume is analysed.
    """
    found: dict[str, dict[str, Any]] = {}
    left_out = {}
    for volume, folder in traces.folders(INFO_NAME, *NEEDED):
        try:
            found[volume.name] = _measured(opened(folder))
        except InputError as error:
            left_out[volume.name] = traces.shown(str(error))
    if not found:
        raise InputError(f"{traces}: no volume is analysed", *list(left_out.values())[:1])
    names, rows = [*found], [*found.values()]
    points = _standardized(np.array([[one.value(row) for one in MEASURES] for row in rows]))
    labels, centres, apart = _clustered(points)
    groups = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        middle = ((points[members] - centres[label]) ** 2).sum(axis=1)
        groups.append(
            Group(
                volumes=[names[one] for one in members],
                typical=names[members[int(middle.argmin())]],
                requests=sum(rows[one]["requests"] for one in members),
                traits=_traits(points[members].mean(axis=0)),
                medians={one.name: _median(rows, members, one.name) for one in MEASURES},
            )
        )
    groups.sort(key=lambda one: -one.requests)
    result = Groups(groups=groups, silhouette=apart, left_out=left_out)
    traces.keep(RESULT, to_builtins(result))
    return result


def _measured(folder: TraceFolder) -> dict[str, Any]:
    """Return the measures of a volume's busiest device."""
    totals, skew = (
        read_whole(folder.require(f"findings/{name}", made_by="analyze")).to_pylist()
        for name in ("volume_totals", "skew")
    )
    if not totals:
        raise InputError(f"{folder.path}: it has no reads and writes")
    busiest = max(totals, key=lambda row: row["read_count"] + row["write_count"])
    of_device = (row for row in skew if row["device"] == busiest["device"])
    tops = {f"{row['operation']}_top_10_ratio": row["top_10_ratio"] for row in of_device}
    return {**busiest, **tops, "requests": folder.info.count("requests")}


def _standardized(values: Floats) -> Floats:
    """Return values in standard deviations from the mean; what is not known is the mean."""
    known = ~np.isnan(values)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0).sum(axis=0) / counts
    apart = np.where(known, values - mean, 0)
    deviation = np.sqrt((apart**2).sum(axis=0) / counts)
    found: Floats = apart / np.where(deviation > 0, deviation, 1)
    return found


def _clustered(points: Floats) -> tuple[NDArray[Any], Floats, float | None]:
    """Return the group of each point, the centres, and the silhouette that chose their number."""
    count = len(np.unique(points, axis=0))
    best: tuple[NDArray[Any], Floats, float | None]
    best = np.zeros(len(points), np.int64), points.mean(axis=0)[None], None
    for groups in range(2, min(MOST_GROUPS, count - 1) + 1):
        labels, centres = min(
            (_means(points, groups, seed) for seed in range(TRIES)),
            key=lambda one: _within(points, *one),
        )
        found = silhouette(points, labels)
        if best[2] is None or found > best[2]:
            best = labels, centres, found
    return best


def silhouette(points: Floats, labels: NDArray[Any]) -> float:
    """Return how well groups are apart, from -1 to 1: the mean silhouette (Rousseeuw 1987).

    Of a point it is (b - a) / max(a, b): a is its mean distance to the others of its group, b that
    to the members of the nearest other group; 0 where it is alone. Of many points a sample counts.
    """
    if len(points) > MOST_COMPARED:
        chosen = np.random.default_rng(0).permutation(len(points))[:MOST_COMPARED]
        points, labels = points[chosen], labels[chosen]
    _, own = np.unique(labels, return_inverse=True)
    is_member = (own[:, None] == np.arange(own.max() + 1)).astype(float)
    sums, sizes = cdist(points, points) @ is_member, is_member.sum(axis=0)
    rows = np.arange(len(points))
    inner = sums[rows, own] / np.maximum(sizes[own] - 1, 1)
    others = np.where(is_member > 0, np.inf, sums / sizes)
    nearest = others.min(axis=1)
    apart = (nearest - inner) / np.maximum(np.maximum(nearest, inner), TINY)
    return float(np.where(sizes[own] > 1, apart, 0.0).mean())


def _means(points: Floats, groups: int, seed: int) -> tuple[NDArray[Any], Floats]:
    """Return the group of each point and the means of the groups, of which none is empty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an empty one, which is left out
        _, labels = kmeans2(
            points, groups, iter=ITERATIONS, minit="++", rng=np.random.default_rng(seed)
        )
    _, places = np.unique(labels, return_inverse=True)
    return places, np.stack([points[places == one].mean(axis=0) for one in np.unique(places)])


def _within(points: Floats, labels: NDArray[Any], centres: Floats) -> float:
    return float(((points - centres[labels]) ** 2).sum())


def _traits(mean: Floats) -> list[str]:
    order = np.argsort(-np.abs(mean))
    told = [int(one) for one in order if abs(mean[one]) >= TOLD_DEVIATIONS]
    return [MEASURES[one].words[int(mean[one] > 0)] for one in told[:3]]


def _median(rows: Sequence[Mapping[str, Any]], members: Any, name: str) -> float | None:
    values = [float(v) for one in members if (v := rows[one].get(name)) is not None]
    return float(np.median(values)) if values else None
