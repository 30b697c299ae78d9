"""How much of an NVM goes to which volume of a set and to which roles, by marginal gain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import structs, to_builtins

from tracekit.errors import InputError
from tracekit.fleet.by_time import ByTime, compare_by_time
from tracekit.fleet.catalogue import TraceSet, opened
from tracekit.metadata import Record
from tracekit.model.answer import HEADLINE_SHARE, PLACED_BYTES, Recommendation, read_recommendation
from tracekit.model.shared_nvm import Division, Share, Tenant, divide
from tracekit.store import INFO_NAME, TraceFolder
from tracekit.units import BLOCK_BYTES, MIB, counted, format_size

RESULT = "placement.json"
NEEDED = ("recommendation.json", "findings/activity.parquet", "working_set.parquet")
"""What is read of each volume."""
BLOCKS = "blocks"
"""The placement of single blocks, whatever their roles."""
TWICE = 2


class VolumeShare(Share, kw_only=True):
    """What one volume gets: of which roles, and what each GiB of it saves."""

    placement: str
    """Roles as `recommend` names them, or blocks; base: nothing is placed."""
    role_bytes: dict[str, int]
    saved_s_an_hour_a_gib: float
    doubled_bytes: int
    """What it would get of twice the NVM."""


class Budget(Record):
    """What an amount of NVM saves of the I/O time of all volumes, at most `bound_ratio`."""

    capacity_bytes: int
    used_bytes: int
    volumes: int
    """That get some of it."""
    saved_s_an_hour: float
    saved_ratio: float
    bound_ratio: float


class FleetPlacement(Record, kw_only=True):
    """The content of placement.json."""

    nvm_profile: str
    bases: dict[str, int]
    """How many volumes are on each base device."""
    budget: Budget
    doubled: Budget
    base_s_an_hour: float
    """I/O time of all volumes in an hour of their traces, on their base devices."""
    touched_bytes: int
    is_exact: bool
    """Every division was compared: no other one saves more."""
    shares: list[VolumeShare]
    """By what a GiB saves, the most first."""
    left_out: dict[str, str] = msgspec.field(default_factory=dict)
    """Volumes without a share, and why."""
    by_time: ByTime | None = None
    """None where a volume is not analysed."""
    headline: list[str] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class _Volume:
    tenant: Tenant
    ways: dict[int, tuple[str, dict[str, int]]]
    """By capacity: the placement, and what of each role is on NVM."""
    touched_bytes: int
    base: str
    nvm: str


def place(
    traces: TraceSet, names: Sequence[str], *, capacity_bytes: int | None = None
) -> FleetPlacement:
    """Divide NVM between the volumes named, which have recommendations; write placement.json.

    By default it is a tenth of what all touched. A volume can use what `recommend` found, by roles
    or block by block; of what it saves, the time in an hour of its trace counts.
    """
    volumes, left_out, folders = list[_Volume](), dict[str, str](), dict[str, TraceFolder]()
    for volume, folder in traces.folders(INFO_NAME, *NEEDED, names={*names}):
        try:
            folders[volume.name] = opened(folder)
            volumes.append(_volume(volume.name, folders[volume.name]))
        except InputError as error:
            left_out[volume.name] = traces.shown(str(error))
    if not volumes:
        raise InputError(f"{traces}: no volume can have a share", *left_out.values())
    touched = sum(one.touched_bytes for one in volumes)
    if capacity_bytes is None:
        capacity_bytes = round(touched * HEADLINE_SHARE) // BLOCK_BYTES * BLOCK_BYTES
    tenants = [one.tenant for one in volumes]
    found, doubled = (divide(tenants, size) for size in (capacity_bytes, TWICE * capacity_bytes))
    whole_s = sum(one.base_ns / one.duration_ns for one in tenants) * 3600
    pairs = zip(volumes, found.shares, doubled.shares, strict=True)
    shares = [_volume_share(*one) for one in pairs]
    result = FleetPlacement(
        nvm_profile=volumes[0].nvm,
        bases=dict(Counter(one.base for one in volumes)),
        budget=_budget(found, capacity_bytes, whole_s),
        doubled=_budget(doubled, TWICE * capacity_bytes, whole_s),
        base_s_an_hour=whole_s,
        touched_bytes=touched,
        is_exact=found.is_exact,
        shares=sorted(shares, key=lambda one: (-one.saved_s_an_hour_a_gib, one.trace)),
        left_out=left_out,
        by_time=compare_by_time(folders, tenants, capacity_bytes=capacity_bytes),
    )
    result.headline = [*_headline(result)]
    traces.keep(RESULT, to_builtins(result))
    return result


def _volume(name: str, folder: TraceFolder) -> _Volume:
    advice, duration_ns = read_recommendation(folder), folder.info.clock.duration_ns
    if not duration_ns:
        raise InputError(f"{folder.path}: its duration is not known, so its load is not")
    base_ns = advice.answer.base_elapsed_ns
    points: dict[int, int] = {}
    ways: dict[int, tuple[str, dict[str, int]]] = {}
    for size, elapsed_ns, way, role_bytes in _points(advice):
        if base_ns - elapsed_ns > points.get(size, 0):
            points[size], ways[size] = base_ns - elapsed_ns, (way, role_bytes)
    tenant = Tenant(name, base_ns, duration_ns, tuple(points.items()))
    return _Volume(tenant, ways, advice.footprint_bytes, advice.base_profile, advice.nvm_profile)


def _points(advice: Recommendation) -> Iterator[tuple[int, int, str, dict[str, int]]]:
    """Yield capacities with the time that they leave, what is placed, and how much of each role."""
    for one in (advice.answer, *advice.answers):
        sizes = {role: getattr(one, name) for role, name in PLACED_BYTES.items()}
        way = {role: size for role, size in sizes.items() if size}
        yield one.capacity_bytes, one.elapsed_ns, one.placement, way
    for best in advice.best_placement.answers if advice.best_placement else ():
        sizes = {role: size for role, size in best.role_bytes.items() if size}
        yield best.capacity_bytes, best.elapsed_ns, BLOCKS, sizes


def _volume_share(volume: _Volume, share: Share, doubled: Share) -> VolumeShare:
    size = share.capacity_bytes
    placement, role_bytes = volume.ways.get(size, ("base", {}))
    return VolumeShare(
        **structs.asdict(share),
        placement=placement,
        role_bytes=role_bytes,
        saved_s_an_hour_a_gib=share.saved_s_an_hour / size * 1024 * MIB if size else 0.0,
        doubled_bytes=doubled.capacity_bytes,
    )


def _budget(found: Division, capacity_bytes: int, whole_s: float) -> Budget:
    sizes = [one.capacity_bytes for one in found.shares]
    return Budget(
        capacity_bytes=capacity_bytes,
        used_bytes=sum(sizes),
        volumes=sum(size > 0 for size in sizes),
        saved_s_an_hour=found.saved_s_an_hour,
        saved_ratio=found.saved_s_an_hour / whole_s if whole_s else 0.0,
        bound_ratio=found.bound_s_an_hour / whole_s if whole_s else 0.0,
    )


def _headline(found: FleetPlacement) -> Iterator[str]:
    one, two = found.budget, found.doubled
    of = counted(len(found.shares), "volume")
    yield (
        f"{format_size(one.capacity_bytes)} of {found.nvm_profile} among {of}:"
        f" {one.saved_ratio:.1%} less I/O time, {one.saved_s_an_hour:,.1f} s of"
        f" {found.base_s_an_hour:,.1f} s an hour;"
        f" placed: {format_size(one.used_bytes)}, in {counted(one.volumes, 'volume')}."
    )
    yield (
        "Every division was compared: none saves more."
        if found.is_exact
        else f"No division saves more than {one.bound_ratio:.1%}, the bound by concave envelopes."
    )
    sizes = {share.trace: share.capacity_bytes for share in found.shares}
    more = [share for share in found.shares if share.doubled_bytes > sizes[share.trace]]
    yield (
        f"Twice as much, {format_size(two.capacity_bytes)}, would save {two.saved_ratio:.1%}"
        f" (at most {two.bound_ratio:.1%}): {counted(len(more), 'volume')} would get more."
    )
    yield (
        f"By time: {found.by_time.headline}"
        if found.by_time
        else "Whether volumes should share by time, as their peaks fall apart, is seen after:"
        " tracekit analyze SET"
    )
    bases = ", ".join(f"{name} {count:,}" for name, count in found.bases.items())
    yield f"Base devices: {bases}. A base that a trace does not say is a guess, see --base."
