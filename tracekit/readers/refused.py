"""Traces without a request of a disk, known by the form of their lines: refused by name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

from tracekit.errors import InputError
from tracekit.readers.salvage import HEAD_BYTES
from tracekit.readers.units import SHOWN_CHARACTERS, listed, show_example

KEYS = "requests are of keys, which have no place on a disk"
PAGES = "requests are of pages and images, which have no place on a disk"
CACHES = (
    "libCacheSim simulates caches of keys; if they are requests of a disk, say what words mean:"
    " --op get=read --op put=write; and name the --columns if the text is of no known format"
)
BLOCKS = (
    "trace the block layer, too: block:block_rq_issue, block:block_rq_complete; if later lines have"
    " that, --format ftrace"
)
CALLS = (
    "(?i:get|gets|get_lease|set|set_lease|add|replace|cas|append|prepend|delete|incr|decr|touch)"
)
REFUSED = (
    (r"(?:op_time,)?key,(?:key_size,)?op,", "a trace of CacheLib's key-value caches", KEYS, CACHES),
    (
        rf"[^,\s]+,{CALLS},[0-9]+,[0-9]+(?:,[0-9]{{1,5}})?\r?$"
        rf"|[0-9]+,[^,\s]+,[0-9]+,{CALLS},[0-9]+,[0-9]+,",
        "a trace of CacheLib's key-value caches",
        KEYS,
        CACHES,
    ),
    (
        r"timestamp,cacheKey,OpType,|[0-9]{9,10},[^,\s]+(?:,-?[0-9]*){6}(?:,[^,]*){7}\r?$",
        "a trace of CacheLib's CDN caches",
        KEYS,
        CACHES,
    ),
    (
        rf"[0-9]+,[^,\s]+,[0-9]+,[0-9]+,[0-9]+,{CALLS},[0-9]+\r?$",
        "a trace of Twitter's caches",
        KEYS,
        CACHES,
    ),
    (
        r"relative_unix\s+hashed_\w*path_query\s"
        r"|[0-9]+\t-?[0-9]+\t(?:(?:gif|jpe?g|png|svg|tiff|webp|x-|nan|-)\S*\t)?[0-9]+\t[0-9]+\.[0-9]+\r?$",
        "a trace of Wikipedia's CDN caches",
        PAGES,
        CACHES,
    ),
    (
        r"[0-9]+ REST\.(?:GET|PUT|HEAD|COPY|DELETE)\.OBJECT [0-9a-f]+",
        "a trace of IBM's object store",
        "requests are of objects, which have no place on a disk",
        CACHES,
    ),
    (
        r'[0-9]+\.[0-9]+ \[[0-9]+ \S+\] "',
        "what redis-cli monitor prints",
        KEYS,
        "redis-benchmark and memtier_benchmark send such calls; tracekit reads requests of disks",
    ),
    (
        rf"(?:<[0-9]+ )?{CALLS} [^\s]{{1,250}}(?: [0-9]+){{0,4}}\r?$"
        r"|>[0-9]+ (?:STORED|END|sending key)",
        "calls of memcached",
        KEYS,
        "memtier_benchmark and mc-crusher send such calls; tracekit reads requests of disks",
    ),
    (
        r"(?:READ|INSERT|UPDATE|SCAN|DELETE) \S+ \S+ (?:[0-9]+ )?\[",
        "what YCSB's basic database prints",
        KEYS,
        "YCSB sends such calls to a store; capture the store's disk to have requests",
    ),
    (
        r".*\s[0-9]+\.[0-9]{6,9}: +(?:(?:f2fs|ext4|jbd2|xfs|btrfs):)?"
        r"(?:f2fs|ext4|jbd2|xfs|btrfs)_\w+: ",
        "its first lines are events of a file system",
        "of most of them no request, no place or no end is told",
        BLOCKS,
    ),
    (
        r"\s+\w+\s+: count\s+distribution\s*$"
        r"|\[\w+(?:, \w+\))?\]?\s+[0-9]+ \|@* *\|\s*$",
        "a histogram, as biolatency, bitesize and bpftrace print them",
        "it has counts and no requests",
        "biosnoop of the same tools has each request",
    ),
    (
        r"TIME\(ms\)\s+DISK\s+COMM\s+PID\s+LAT\(ms\)",
        "biosnoop.bt of bpftrace",
        "it prints no place, no length and no operation",
        "bcc's biosnoop prints them; or record with tracekit capture",
    ),
)
"""What a line near the start begins with, what that is, why it is no trace of a disk, and what to
do. Columns of caches: github.com/cacheMon/cache_dataset, github.com/twitter/cache-trace."""
REFUSED_LINES = 20


def reject_lone_head(head: bytes, name: str, *, known: Iterable[str], names_columns: bool) -> None:
    """Raise InputError for a text of comments, titles and a header, which no request follows.

    `known` are expressions of lines that are no requests, and a header may be the first line.
    """
    lines = [line for line in head.decode("latin-1").splitlines() if line.strip()]
    patterns = "|".join(f"(?:{pattern})" for pattern in (r"\s*(?:#|//)", *known))
    is_head = re.compile(patterns).match
    if len(head) < HEAD_BYTES and lines and all(map(is_head, lines[int(names_columns) :])):
        shown = show_example((1, lines[0][:SHOWN_CHARACTERS]))
        hint = "check the file: perhaps nothing was traced, or it is cut"
        raise InputError(
            f"{name}: there is no request in it, only a head", *listed([shown]), hint=hint
        )


def reject_by_name(head: bytes, name: str, *, given: Iterable[str]) -> None:
    """Raise InputError for public traces that are not of a disk: no other format may be theirs.

    `given` are the words of operations that the user explained.
    """
    lines = head.decode("latin-1").split("\n", REFUSED_LINES)[:REFUSED_LINES]
    words = set(given)
    for (pattern, what, why, hint), (number, line) in product(REFUSED, enumerate(lines, 1)):
        if re.match(pattern, line) and words.isdisjoint(re.findall(r"\w+", line.lower())):
            shown = show_example((number, line[:SHOWN_CHARACTERS]))
            raise InputError(f"{name}: {what}: {why}", *listed([shown]), hint=hint)
