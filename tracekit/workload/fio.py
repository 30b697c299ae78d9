"""A work profile as a job of fio: a section for each kind of requests, and what fio cannot hold."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from tracekit.errors import InputError
from tracekit.escapes import escape, operand, shell_word
from tracekit.store import beside
from tracekit.workload import model
from tracekit.workload.model import Arrival, Profile, Request, Stream, mean, mean_gap_ns
from tracekit.workload.requests import Extent

HEAD = """\
# {about}
# The work profile {name} as a job of fio, made by tracekit. fio draws its own numbers: for the
# very requests of tracekit make a trace folder and export that. Run it with a file or a disk,
# whose content is lost if the job writes:
#   fio --filename=FILE {job}
[global]
size={target}
ioengine={engine}
direct={direct}
randrepeat=1
randseed={seed}
group_reporting=0
"""
NS = 1e9
DEFAULT_NS = 60 * 10**9
ODD = re.compile(r"[^A-Za-z0-9_.-]+")


COMMENT_CHARACTERS = 500
"""fio takes what is behind 4095 bytes of a line for the next line."""
NAME_CHARACTERS = 100


def _comment(text: str) -> str:
    """Return a text of others for a comment, which it cannot leave."""
    return escape(text)[:COMMENT_CHARACTERS]


class _Changes(dict[str, None]):
    """What fio does otherwise, each once, in words."""

    def add(self, line: str) -> None:
        self[line] = None


def write_job(profile: Profile, output: Path, *, extent: Extent, overwrite: bool) -> dict[str, Any]:
    """Write the job; return its sections and, as `changed`, what fio does otherwise.

    Raise InputError for a profile of which fio can hold nothing.
    """
    changes = _Changes()
    sections = list(_sections(profile, extent, changes))
    if not sections:
        raise InputError(f"{profile.file}: fio can hold none of its requests")
    text = HEAD.format(
        about=_comment(profile.about),
        name=_comment(profile.name),
        job=_comment(shell_word(operand(output.name))),
        target=profile.target_bytes,
        engine="libaio" if profile.is_direct else "psync",
        direct=int(profile.is_direct),
        seed=extent.seed,
    )
    text += "".join(f"# fio differs: {line}\n" for line in changes)
    for name, options in sections:
        text += f"\n[{name}]\n" + "".join(f"{key}={value}\n" for key, value in options.items())
    with beside(output, overwrite=overwrite) as part:
        part.write_text(text)
    return {"sections": len(sections), "changed": list(changes)}


def _sections(
    profile: Profile, extent: Extent, changes: _Changes
) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, stream in enumerate(profile.streams, 1):
        rate = NS / mean_gap_ns(stream.arrival)
        _note_arrival(stream.arrival, changes)
        for place, request in enumerate(stream.requests, 1):
            if request.operation == "flush":
                changes.add("flushes are left out")
                continue
            if request.share == 0:
                continue
            options = {
                "offset": stream.start_bytes,
                "size": stream.size_bytes,
                **_how(request, changes),
                **_when(profile, request.share * rate, changes=changes, arrival=stream.arrival),
                **_how_long(profile, stream, request, extent),
            }
            role = "" if stream.role == "unknown" else stream.role
            words = (role, stream.process or "", request.operation, f"{number}.{place}")
            name = ODD.sub("-", "-".join(word[:NAME_CHARACTERS] for word in words if word))
            yield name, options


def _note_arrival(arrival: Arrival, changes: _Changes) -> None:
    if arrival.gap.kind != model.EXPONENTIAL or arrival.correlation:
        changes.add("gaps are of one mean and exponential or even")
    if arrival.burst is not None:
        changes.add("requests come one by one, not in bursts")
    if arrival.phases:
        changes.add("phases are one mean rate")


def _how(request: Request, changes: _Changes) -> dict[str, Any]:
    is_random = request.run is not None and request.begins != "on" and request.circle is None
    if request.then:
        changes.add("which kind comes behind which is left to chance")
    if request.circle is not None:
        changes.add("what goes round does so in its whole part, each kind by itself")
    options: dict[str, Any] = {"rw": f"{'rand' if is_random else ''}{request.operation}"}
    length = 1.0 if request.run is None else mean(request.run)
    if is_random and length >= 1.5:
        options["rw"] += f":{round(length)}"
        if request.run and request.run.kind != model.CONSTANT:
            changes.add("runs have their mean length")
    options |= _sizes(request, changes)
    if is_random:
        options |= _places(request, changes)
    if request.flags:
        changes.add("flags such as FUA are left out")
    return options


def _sizes(request: Request, changes: _Changes) -> dict[str, Any]:
    size = request.size
    if size.kind == model.CONSTANT:
        return {"bs": int(size.scale)}
    if size.kind == model.CHOICES:
        shares = [after - before for before, after in pairwise((0.0, *size.up_to))]
        whole = _percents(shares)
        if any(abs(100 * share - part) > 0.005 for share, part in zip(shares, whole, strict=True)):
            changes.add("shares of sizes are whole percents")
        parts = zip(map(int, size.values), whole, strict=True)
        split = ":".join(f"{value}/{part}" for value, part in parts if part)
        return {"bssplit": split, "blockalign": request.align_bytes}
    changes.add("sizes lie evenly between the least and the largest")
    span = f"{request.least_bytes}-{request.most_bytes}"
    return {"bsrange": span, "blockalign": request.align_bytes}


def _percents(shares: list[float]) -> list[int]:
    """Return whole percents that add up to 100, the rest going to the largest remainders."""
    percents = [int(100 * share) for share in shares]
    order = sorted(range(len(shares)), key=lambda at: percents[at] - 100 * shares[at])
    for at in order[: 100 - sum(percents)]:
        percents[at] += 1
    return percents


def _places(request: Request, changes: _Changes) -> dict[str, Any]:
    locality = request.locality
    if locality.reuse_ratio or request.is_used:
        changes.add("places are not used again by their recency")
    if locality.kind == model.ZIPF:
        changes.add("Zipf's law is of places, not of blocks")
        exponent = locality.exponent if abs(locality.exponent - 1) > 1e-3 else 1.001
        return {"random_distribution": f"zipf:{exponent:g}", "norandommap": 1}
    if locality.kind == model.SHARES:
        changes.add("hot places lie together, from the start")
        zones = ":".join(_zones(locality, changes))
        return {"random_distribution": f"zoned:{zones}", "norandommap": 1}
    return {"norandommap": 1}


def _zones(locality: model.Locality, changes: _Changes) -> Iterator[str]:
    """Yield requests/blocks in whole percents; parts of less than a percent of the blocks join."""
    to: dict[int, float] = {}
    for blocks, requests in zip(locality.blocks_to, locality.requests_to, strict=True):
        to[max(1, math.ceil(100 * blocks - 1e-9))] = requests
    if len(to) < len(locality.blocks_to):
        changes.add("hot places are at least one percent of all")
    shares = [after - before for before, after in pairwise((0.0, *to.values()))]
    widths = [after - before for before, after in pairwise((0, *to))]
    for requests, width in zip(_percents(shares), widths, strict=True):
        yield f"{requests}/{width}"


def _when(profile: Profile, rate: float, *, changes: _Changes, arrival: Arrival) -> dict[str, Any]:
    if profile.pace == "fast":
        changes.add("each section keeps a queue of its own, whatever the shares")
        return {"iodepth": profile.depth}
    if rate >= 1:
        if abs(round(rate) - rate) > 0.01 * rate:
            changes.add("rates are whole requests a second")
        process = "poisson" if arrival.gap.kind == model.EXPONENTIAL else "linear"
        return {"iodepth": profile.depth, "rate_iops": round(rate), "rate_process": process}
    changes.add("requests of less than one a second follow each other at the mean time")
    return {"iodepth": 1, "thinktime": round(1e6 / rate)}


def _how_long(profile: Profile, stream: Stream, request: Request, extent: Extent) -> dict[str, Any]:
    if extent.requests is not None:
        total_rate = sum(1 / mean_gap_ns(one.arrival) for one in profile.streams)
        share = request.share / mean_gap_ns(stream.arrival) / total_rate
        return {"number_ios": max(1, round(extent.requests * share)), "io_size": 1 << 60}
    duration_ns = extent.duration_ns or DEFAULT_NS
    return {"time_based": 1, "runtime": f"{max(1, round(duration_ns / NS))}s"}
