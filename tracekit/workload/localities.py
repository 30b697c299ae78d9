"""Reads where the requests of a work profile begin."""

from __future__ import annotations

from dataclasses import replace

from tracekit.workload.distributions import read_count
from tracekit.workload.keys import Keys
from tracekit.workload.model import SHARES, ZIPF, Locality

KINDS = ("uniform", "zipf", "hot", "shares")
KNOWN = {
    "uniform": ("kind",),
    "zipf": ("kind", "block", "exponent"),
    "hot": ("kind", "block", "blocks", "requests"),
    "shares": ("kind", "block", "blocks", "requests"),
}


def read_locality(keys: Keys, align_bytes: int) -> Locality:
    """Return the locality of the keys `locality`, `reuse` and `distance`.

    Without them all places are even.
    """
    found = Locality()
    if keys.has("locality") and keys.value("locality") != "uniform":
        found = _spatial(keys, align_bytes)
    if keys.has("reuse"):
        own = Keys(keys.value("reuse"), f"{keys.place}, key 'reuse'", known=("share", "distance"))
        share = own.number("share", low=0, high=1)
        found = replace(found, reuse_ratio=share, distance=read_count(own, "distance"))
    if keys.has("distance"):
        found = replace(found, distance=read_count(keys, "distance"))
    return found


def _spatial(keys: Keys, align_bytes: int) -> Locality:
    value = keys.value("locality")
    if not isinstance(value, dict):
        hint = 'write "uniform" or { kind = "zipf", exponent = 0.99, block = "64KiB" }'
        raise keys.wrong("locality", "is no locality", hint=hint)
    place = f"{keys.place}, key 'locality'"
    every = tuple(dict.fromkeys(key for known in KNOWN.values() for key in known))
    kind = Keys(value, place, known=every).choice("kind", KINDS)
    own = Keys(value, f"{place} of kind {kind}", known=KNOWN[kind])
    if kind == "uniform":
        return Locality()
    block = own.size("block", align_bytes)
    if block % align_bytes:
        raise own.wrong("block", f"is {block:,} bytes, no multiple of align, {align_bytes:,}")
    if kind == "zipf":
        return Locality(ZIPF, block, own.number("exponent", low=0.01, high=10))
    if kind == "hot":
        blocks, requests = (own.number(key, low=1e-9, high=1) for key in ("blocks", "requests"))
        return Locality(SHARES, block, 0, (blocks, 1.0), (requests, 1.0))
    blocks_of = own.numbers("blocks", low=0, high=1e18)
    to = own.weights("blocks", len(blocks_of)), own.weights("requests", len(blocks_of))
    return Locality(SHARES, block, 0, *to)
