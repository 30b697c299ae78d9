"""The tables of the trace folder, version 1: every column with its type and its meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.arrow import name_codes

TEXT = pa.dictionary(pa.int32(), pa.string())
_TYPES = {
    "text": TEXT,
    "list<int64>": pa.list_(pa.int64()),
    "list<float64>": pa.list_(pa.float64()),
}
_COLUMN = re.compile(
    r"(?P<name>\w+) (?P<type>[\w<>]+)(?P<null>\??): (?P<meaning>.*(?:\n {8}.*)*)", re.MULTILINE
)
_TABLE = re.compile(r"\s*(?P<place>\S+) of (?P<made_by>[^:]+): (?P<grain>.*(?:\n {8}.*)*)\n")

SCHEMA_VERSION = 1
ROW_GROUP_ROWS = 1 << 20

ROLE_NAMES = {
    "fs": "file system",
    "journal": "journal",
    "swap": "swap",
    "other": "other",
    "unknown": "not known",
}
ROLES = tuple(ROLE_NAMES)
MOST_ACCESSED = "most-accessed-first"
"""The curve that a study calls the optimum: all blocks by falling accesses."""
OLD_PLACEMENTS = {"optimal": MOST_ACCESSED}
"""What folders of versions before call a placement."""
PLACEMENT_NAMES = {
    "fs": "the file system",
    "journal": "the journal",
    "swap": "swap",
    "combined": "a split between roles",
    MOST_ACCESSED: "the most accessed blocks of all roles",
    "base": "the base device alone",
    "units": "whole units",
}
OPERATIONS = (
    *("read", "write", "flush", "discard", "write_zeroes", "zone", "zone_append", "zone_reset"),
    *("zone_reset_all", "zone_open", "zone_close", "zone_finish", "other"),
)
"""`zone` is an operation on zones that the capture does not name."""


@dataclass(frozen=True)
class Table:
    """A table: its file in the trace folder, the command that makes it, what a row is, columns."""

    place: str
    """Without `.parquet`."""
    made_by: str
    grain: str
    columns: pa.Schema

    @property
    def name(self) -> str:
        """Its name as a view."""
        return self.place.rpartition("/")[2]


def _columns(declaration: str) -> pa.Schema:
    """Return the columns of a table: each has a name, a type (`?`: may be null) and a meaning.

    The unit is the end of the name; lines that are indented further continue the meaning.
    """
    return pa.schema(
        pa.field(
            found["name"],
            _TYPES.get(found["type"]) or pa.type_for_alias(found["type"]),
            nullable=bool(found["null"]),
            metadata={"meaning": re.sub(r"\n +", " ", found["meaning"])},
        )
        for found in _COLUMN.finditer(declaration)
    )


_stored_tables: list[Table] = []


def _stored(declaration: str) -> pa.Schema:
    """Return the columns of a table of TABLES, whose declaration begins PLACE of COMMAND: GRAIN."""
    found = next(_TABLE.finditer(declaration))
    columns = _columns(declaration[found.end() :])
    grain = re.sub(r"\n +", " ", found["grain"])
    _stored_tables.append(Table(found["place"], found["made_by"], grain, columns))
    return columns


REQUESTS = _stored("""
    requests of parse: one row per request as queued
    request_id int64: position in queue order, from 0; joins completions
    queue_ns int64?: queued (Q)
    getrq_ns int64?: request structure allocated (G)
    insert_ns int64?: inserted into the scheduler (I)
    merge_ns int64?: merged into another request (M or F)
    issue_ns int64?: issued to the driver (first D)
    transfer_ns int64?: last byte transferred (last C with bytes); earlier by a closing flush
    complete_ns int64?: completed (last C of any kind)
    device text: whole device or volume
    sector int64: first 512-byte sector, from the start of `device`
    length_bytes int64: bytes transferred or discarded; 0 for an empty flush
    operation text?: read, write, flush, discard, write_zeroes, zone_append, zone_reset,
        zone_reset_all, zone_open, zone_close, zone_finish, zone (one of these) or other; null where
        the format of an imported trace does not say
    is_sync bool: synchronous
    is_meta bool: file system metadata
    is_fua bool: forced unit access
    is_preflush bool: cache flush before the data
    is_readahead bool: readahead
    process text?: name of the process that queued it
    pid int32?: of the queue event
    cpu int32: of the queue event
    error int32: negative errno of the completion, 0 if none
    merged_into int64?: request_id of the request that carried it
    requeue_count int32: times the driver gave it back (R)
    split_count int32: times it was split (X)
    depth int32: requests of the device not yet complete at queue, this included
    partition text?: major,minor it was remapped from (A)
    cgroup text?: control group that the kernel counts it for, by its path; `#` and its id where
        it was gone before anybody looked; null where the capture does not say
    role text: fs, journal, swap, other or unknown; set by classify
""")
LATER_COLUMNS = frozenset({"cgroup"})
"""Of `requests`: folders of earlier versions lack them; nothing is known of them there."""

BLOCKS = _stored("""
    blocks of classify: one row per device, 4 KiB block and role
    device text: whole device or volume
    block int64: 4 KiB block number, from the start of `device`
    role text: role of the requests that touched it
    reads int64: read requests that touched it
    writes int64: write requests that touched it
    sectors int32: distinct 512-byte sectors of it that were touched, 1 to 8
    first_ns int64: first access
    last_ns int64: last access
    traffic_ratio float64: its share of all block touches of the trace, 0 to 1
    temperature text: hot, warm or cold by the rule in trace.json
""")

WORKING_SET = _stored("""
    working_set of classify: one row per window and role
    window_ns int64: start of the window
    role text: role
    distinct_blocks int64: different 4 KiB blocks touched within the window
    new_blocks int64: of these, blocks never touched before
""")

VOLUMES = _stored("""
    volumes of classify: one row per device that was read or written
    device text: whole device or volume
    reads int64: read requests, with those whose operation the format does not say
    writes int64: write requests
    random_reads int64: of the reads, those that begin more than 128 KiB from each of the 32 reads
        and writes of the device before them; the first is none
    random_writes int64: the same of the writes
""")

INTERVALS = _stored("""
    intervals of classify: one row per device, kind and log-linear bucket of times, 16 an octave
    device text: whole device or volume
    kind text: RAR, WAR, RAW or WAW: from an access of a 4 KiB block to the next, by the later and
        the earlier of both (RAW: a read after a write); update: from a write of a block to its next
        write, whatever lies between; arrival: from a read or write of the device to the next
    low_ns int64?: smallest time of the bucket; null: one of both times is not known
    high_ns int64?: smallest time of the next bucket
    interval_count int64: how many
""")

FILE_STATES = {
    "same": "it has the place at both ends of the capture, or has not changed since before it",
    "new": "made during the capture, known from then on",
    "grown": "an older file, which got the place during the capture; it was free before",
    "given": "as a map that was given has it",
    "renamed": "not known: the file had another name before",
    "reused": "not known: another file had the place before",
    "changed": "not known: an older file that changed, of which the places before are not known",
    "moved": "not known: the file that had the place before is elsewhere, or cut",
    "deleted": "not known: the file that had the place before is gone",
    "unseen": "not known: the file that had the place before was not looked for again",
    "shared": "not known: several files have the place",
}
"""Why a place has the name of a file, or none."""
NAMED_STATES = ("same", "new", "grown", "given")

FILE_MAP = "file_extents"
FILE_EXTENTS = _stored(f"""
    file_extents of parse: one row per piece of a device that files have or had, in their order
    device text: traced device
    first_sector int64: its first 512-byte sector, from the start of `device`
    sectors int64: how many; no two rows overlap
    path string?: the file there, as it is mounted; null: not known whose the place was
    file_sector int64?: where in the file it begins; null with `path`
    from_ns int64?: the file is there from then on; null: as long as the trace
    state text: {"; ".join(f"{name} ({why})" for name, why in FILE_STATES.items())}
    log text?: database whose log it is, by its name; set by classify
""")

FILE_OPERATION_NAMES = (
    *("open", "create", "close", "read", "write", "fsync", "fdatasync", "sync_file_range"),
    *("stat", "rename", "link", "unlink", "mkdir", "rmdir", "readdir", "truncate", "fallocate"),
    *("mmap", "munmap", "msync", "sync", "chmod", "chown", "utimens", "symlink"),
    *("setxattr", "getxattr", "listxattr", "removexattr"),
)
"""In the order of the native enum."""

FILE_KINDS = ("file", "directory", "other")
EVIDENCE = (
    *("unknown", "absent", "snapshot", "unchanged", "stat", "seek", "end", "after", "reads"),
)
"""In the order of the native enum; what each means is said at the column."""

FILE_OPERATIONS = _stored(f"""
    file_operations of capture --files: one row per file system call, in order of start
    operation_id int64: position in the order of start, from 0
    start_ns int64: the call began
    end_ns int64?: the call returned; null: part of the row before (the write of a copy), or a
        close that no call made (the process ended or ran another program)
    process text?: name of the thread
    pid int32: process
    tid int32: thread
    operation text: {", ".join(FILE_OPERATION_NAMES)}
    file_id int64?: file by the path it was opened or named by; null for sync of everything
    other_file_id int64?: new name of rename and link
    handle int64?: one an open file description, which dup and fork share
    offset_bytes int64?: place in the file, also of reads and writes at the handle's own
        position
    length_bytes int64?: bytes asked for, new size of truncate, size of an attribute's value or
        of the buffer for it; null for calls with several buffers
    done_bytes int64?: bytes that were moved
    is_direct bool: past the page cache (O_DIRECT)
    is_sync bool: durable at return (O_SYNC, O_DSYNC, MS_SYNC)
    is_append bool: writes go to the end (O_APPEND)
    is_truncate bool: the open cuts the file to nothing (O_TRUNC)
    is_exclusive bool: the open must make the file (O_EXCL)
    error int32: errno of the call, 0 if none
""")

MEMORY_OPERATIONS = ("load", "store", "modify", "fetch")
"""In the order of the native enum."""

MEMORY_ACCESSES = _stored("""
    memory_accesses of import: one row per memory access, in its order
    instruction int64?: number of the instruction that makes it, from 0; null: not in the format
    time_ns int64?: from the first access; null: not in the format
    address uint64: first byte, virtual or physical as the source has it
    size_bytes int32?: bytes from there; null: not in the format
    operation text: load, store, modify (both by one instruction) or fetch (of an instruction)
""")

FILES = _stored("""
    files of capture --files: one row per path that an operation names
    file_id int64: number of the path; joins file_operations
    path string: absolute, as recorded, or hashed part by part
    kind text: file, directory or other (device, pipe, /proc); else file
    size_bytes int64?: before the first operation; null: absent, no file, or not known
    evidence text: of the size: snapshot (looked at before), unchanged (looked at after, not
        changed since), stat, seek or end (told by the trace before a change), after (size
        after, less what was added), reads (at least so large), absent (was not there), unknown
""")

PLACEMENT = _stored("""
    simulations/placement of recommend: one row per placement and capacity
    base_profile string: device that holds everything not placed on NVM
    nvm_profile string: device model of the NVM
    placement string: base, a role, several as in fs+journal, combined (all roles) or
        most-accessed-first (all blocks by falling accesses, the study's optimum)
    coverage string: hottest, start or none: which blocks of a role go first
    capacity_bytes int64: NVM capacity
    elapsed_ns int64: sum of the service times of all requests
    response_avg_ns int64?: with queueing: mean time from arrival to completion
    makespan_ns int64?: with queueing: from the first arrival to the last completion
    fs_bytes int64: NVM given to the file system at this point
    journal_bytes int64: NVM given to the journal at this point
    swap_bytes int64: NVM given to swap at this point
""")

UNITS = _stored("""
    simulations/units of recommend: one row per unit of --unit; none without it
    unit string: role, file, directory, log or extent
    name string: role, path, log and where it lies, or device and number of the extent; of a
        directory with / at the end
    device string: device of its first touched block
    first_block int64: its first 4 KiB block; of files and roles the first that was touched
    blocks int64: touched 4 KiB blocks
    bytes int64: its size, also where the trace did not touch it
    along_bytes int64: touched bytes outside of it that go along, as metadata and journal
    taken_bytes int64: what it takes of the NVM as it is carried out, but for what it shares with
        others: 8 MiB of a file system for files, 4 MiB of LVM's own for extents of a volume,
        and what dividing the NVM takes
    saving_ns int64: how much shorter the trace got when it moved, after those that moved before
    is_placed bool: the answer places it
""")

_BLOCK_RUNS = """
    device text: traced device
    first_block int64: number of its first 4 KiB block
    blocks int64: how many follow one another, the first included
    role text: of all of them
"""

BEST_PLACEMENT = _stored(f"""
    simulations/best_placement of recommend: one row per run of neighbouring blocks on NVM
    {_BLOCK_RUNS}""")

UNIT_BLOCKS = _stored(f"""
    simulations/unit_blocks of recommend: one row per run of neighbouring touched blocks on NVM with
        the placed units, and of what goes along with them; none without --unit
    {_BLOCK_RUNS}""")

VERIFICATION = _stored("""
    verification of verify-placement: one row per repeat and kind of replay
    repeat int64: number of the repeat, from 1
    devices string: base: everything there; placement: as recommended; runner-up: as the model
        has it next
    predicted_ns int64: elapsed (queueing: mean response) time by the model
    measured_ns int64: the same of the replay
""")

FIDELITY = _stored("""
    fidelity of fit: one row per role and measure
    role string: all, or the role of the requests
    measure string: mix (of operations and flags), size, gap, run_length, reuse_distance,
        miss_ratio, dispersion or gap_correlation
    unit string: of the means: bytes, ns, requests, pages of 4 KiB, or ratio
    original_count int64: values of the trace that were compared
    synthetic_count int64: of the requests that the profile gives
    original_mean float64?: mean value, or the one value that there is, of the trace
    synthetic_mean float64?: the same of the profile
    largest_gap_ratio float64?: Kolmogorov-Smirnov distance; of the mix total variation; of miss
        ratios the largest difference at one size; 0 to 1
    mean_gap float64?: Wasserstein distance in the unit; of miss ratios the mean difference over
        sizes that double
""")

FIDELITY_CURVE = _stored("""
    fidelity_curve of fit: one row per source and size
    source string: original or synthetic
    size_bytes int64: an LRU cache of 4 KiB pages of this size
    miss_ratio float64: reads and writes of pages that miss it, 0 to 1
""")

COMPARISON = _stored("""
    comparison of compare: one row per name, measure, role and operation
    name string: replay, or trace for what was traced
    measure string: elapsed, or service_avg, service_p50, service_p99
    role string: role of the requests; all for elapsed
    operation string: operation of the requests; all for elapsed
    repeats int64: replays of this name
    request_count int64: requests done, in the first repeat
    time_ns float64: mean over the repeats
    time_low_ns float64?: end of its 95% confidence interval (Student's t); null without
        repeats
    time_high_ns float64?: the other end of it
    ratio float64?: to the first name; geometric mean
    ratio_low float64?: end of its 95% confidence interval (of logarithms: Student's t of pairs,
        else Welch's); null without
    ratio_high float64?: the other end of it
    pairs int64?: runs of both that took turns; null: the names ran one after the other
    p_value float64?: probability of a ratio as far from 1 without a difference; null without
        repeats
    p_corrected float64?: for the number of rows (Holm); percentiles are corrected apart
    verdict string?: different (p_corrected below 5%), none found, or cannot tell: fewer than
        three repeats; null: nothing to compare with
    detectable_ratio float64?: difference that so many repeats find with 80% probability
    repeats_needed int64?: to find a difference of 1% so; null: more than a million
""")

CACHE_CURVE = _stored("""
    simulations/cache_curve of simulate cache: one row per cache, device, role, operation and size
    cache string: shared: one cache for all; own: one for this role or this device
    scope string: whose references are counted: of all devices, of one, or of others than these
    device string?: of scope one; else null
    role string: role whose references are counted, or all
    operation string: read, write or all
    capacity_bytes int64: size of the LRU cache, in whole pages
    references int64: pages that the requests touched, each as often
    miss_ratio float64: share of the references not in the cache, 0 to 1
    miss_ratio_low float64: end of its error band; the same if exact
    miss_ratio_high float64: end of its error band; the same if exact
""")

CACHE_POLICIES = _stored("""
    simulations/cache_policies of simulate cache: one row per policy and size
    policy string: lru, fifo, clock, s3-fifo, arc, 2q, lirs, sieve, w-tinylfu or optimum (Belady)
    writes string: through, back or around the cache
    capacity_bytes int64: size of the cache, in whole pages
    reads int64: pages read by the requests
    read_hits int64: of these, in the cache
    write_references int64: pages written by the requests
    write_hits int64: of these, in the cache when they were written
    miss_ratio float64: of reads and writes, 0 to 1
    miss_ratio_low float64: end of its error band; the same if exact
    miss_ratio_high float64: end of its error band; the same if exact
    read_miss_ratio float64?: of reads, 0 to 1; null without
    fills int64: pages that came into the cache
    backend_reads int64: pages read behind the cache
    backend_writes int64: pages written behind the cache
    dirty_pages int64: pages at the end newer in the cache than behind it
""")

CACHE_PLANE = _stored("""
    simulations/cache_plane of simulate cache: one row per pair of sizes
    levels string: exclusive or inclusive: does flash repeat what PCM holds
    pcm_policy string: a policy but optimum
    flash_policy string: the same of the flash level
    writes string: how both levels write: through, back or around
    pcm_bytes int64: size of the PCM level
    flash_bytes int64: size of the flash level below it
    even_flash_bytes int64?: on a line of equal cost, the flash that costs as much; null in the
        plane
    price_in_flash_bytes int64: flash that costs as much as both levels
    reads int64: pages read by the requests
    pcm_read_hits int64: of these, in PCM
    flash_read_hits int64: of these, in flash and not in PCM
    pcm_writes int64: pages written to PCM: brought in or changed there
    flash_writes int64: pages written to flash: brought in, demoted, changed
    base_writes int64: pages written behind the cache
    dirty_pages int64: pages at the end newer on a level than behind both
    read_latency_avg_ns float64?: of the level that had it
    io_time_ns float64: all reads and writes of PCM, flash and behind, summed
""")

CACHE_SENSITIVITY = _stored("""
    simulations/cache_sensitivity of simulate cache: one row per measure, changed parameter and
        budget
    measure string: what is to be least: read_latency_avg or io_time
    parameter string?: what changed; null: the devices as said
    factor float64: by how much; a read or write of any length changes alike
    even_flash_bytes int64: the budget: flash that costs as much
    pcm_price_in_flash float64: price of PCM in flash of the same size, so changed
    pcm_bytes int64: PCM of the best pair for the budget, of nine splits
    flash_bytes int64: flash of the best pair
    best_ns float64: the measure with the best pair
    flash_alone_ns float64: the measure with the budget spent on flash
    gain_ratio float64: share of it that the best pair saves
""")

BUFFER = _stored("""
    simulations/buffer of simulate buffer: one row per memory, level, mapping, row size, number of
        buffers and operation
    nvram string: as asked, or a memory of the what-if: whose times
    level string: processor: loads and stores, before the caches; memory: reads and write-backs of
        lines, behind them
    mapping string: lru: rows used last are open; banked: row modulo buffers
    row_bytes int64: size of a buffer: of the row that it holds
    buffers int64: row buffers of the memory
    operation string: all, read or write
    accesses int64: accesses, each of at most a line
    bytes int64: bytes of them
    hits int64: accesses all of whose rows were open
    hit_rate float64: hits by accesses, 0 to 1
    row_reads int64: rows that were opened
    row_writes int64: rows that had been written when they were closed
    access_avg_ns float64: mean time of an access of the NVRAM
    unbuffered_avg_ns float64: the same of NVRAM without buffers
    dram_avg_ns float64: the same of DRAM with these hits
    throughput_bytes_per_second float64: of accesses to the NVRAM one by one
    program_ratio float64?: throughput of the whole program beside DRAM with these hits; of all
        accesses at the memory, null where the instructions are not known
""")

SENSITIVITY = _stored("""
    simulations/sensitivity of simulate sensitivity: one row per change, window or capacity
    kind text: recommended, parameter, window or capacity
    device text?: base or nvm, whose parameter is changed
    parameter text?: what of it takes longer or less
    factor float64?: times as long
    window int64?: number of the window, from 1
    start_ns int64?: start of the window
    end_ns int64?: end of the window
    capacity_bytes int64: NVM capacity
    requests int64: reads and writes that were charged
    base_ns int64: time of the base device alone
    kept_ns int64?: time with the shares of the recommendation; null for another capacity, and
        where nothing takes time
    kept_gain_ratio float64?: share that it saves
    placement text: best here: base, a role or combined; units where the answer is by these
    gain_ratio float64: share of the base's time that the best saves
    holds bool: the best here is the placement that was recommended; of units: they save time
""")

RIVALS = _stored("""
    simulations/rivals of simulate rivals: one row per cache and way of writing
    rival text: dm-writecache, dm-cache, bcache, Open CAS, ZFS log, ZFS special, zram or zswap
    mode text: how it writes: through, back, around or only; alone: what is there is nowhere else
    capacity_bytes int64: of NVM, in whole cache blocks; of zram and zswap memory
    block_bytes int64: size of a cache block
    elapsed_ns int64: sum of the requests' times, flushes included
    background_base_ns int64: time of the base devices for the cache's own work
    delayed_ns int64: of it, what finds no idle time, with arrivals as traced
    background_nvm_ns int64: the same of NVM
    reads int64: cache blocks read by requests
    read_hits int64: of these, from NVM
    writes int64: cache blocks written by requests
    write_hits int64: of these, in the cache before
    bypassed int64: blocks that went by, as of a sequential stream
    fills int64: blocks that came in
    evictions int64: clean blocks that left for others
    writebacks int64: dirty blocks written to base
    commits int64: writes of 4 KiB of the cache's metadata
    dirty_bytes int64: at the end newer on NVM than on base, or there alone; uncompressed
""")

ENDURANCE = _stored("""
    simulations/endurance of simulate endurance: one row per role and per placement
    kind text: role (what the trace writes) or placement (what NVM takes)
    name text: the role, or the placement as in `placement`
    pages int64: 4 KiB pages touched, of a placement those on NVM
    written_pages int64: of these, pages written at least once
    page_writes int64: writes of these pages, each page of a request
    written_bytes int64?: bytes asked for by writes; of a placement null, pages are counted
    bytes_a_day float64?: written_bytes, or of a placement page_writes of 4 KiB, of 24 hours at
        the trace's rate; null without a duration
    write_invalidation_factor float64?: page_writes / written_pages: mean writes of a written
        page
    writes_p99 int64?: writes that 99% of the written pages do not exceed
    writes_max int64: writes of the page written most
    ideal_days float64?: lifetime with ideal wear levelling over the capacity; null: not known
        or nothing written
    unlevelled_days float64?: lifetime of the page written most, without wear levelling; null as
        above
    capacity_bytes int64?: NVM capacity
    price float64?: of the capacity, in the currency of endurance.json, or relative without one
    elapsed_ns int64?: elapsed time as in `placement`
""")

TIERS = _stored("""
    simulations/tiers of simulate tiers: one row per mix of tiers
    share_ratio list<float64>: share of the capacity on each tier, 0 to 1
    extents list<int64>: touched extents on each tier, static placement
    price_per_gb float64: price of a gigabyte of the mix
    latency_avg_ns float64: mean latency, static placement
    iops float64: requests a second, one after another: 1 / latency
    iops_per_price float64: iops / price_per_gb
    dynamic_latency_avg_ns float64?: mean latency, dynamic
    dynamic_iops_per_price float64?: of dynamic tiering
    promoted_bytes int64?: moved to a faster tier
    demoted_bytes int64?: moved to a slower tier
""")

TIERS_KEY = _stored("""
    simulations/tiers_key of simulate tiers: one row per method and key configuration
    configuration string: all of one tier, or the best of a group of mixes
    method string: static or dynamic
    mix string: shares of the capacity in words
    share_ratio list<float64>: share of the capacity on each tier, 0 to 1
    price_per_gb float64: price of a gigabyte of the mix
    latency_avg_ns float64: mean latency
    iops float64: requests a second, one after another: 1 / latency
    iops_per_price float64: iops / price_per_gb
    promoted_bytes int64?: moved to a faster tier, dynamic
    demoted_bytes int64?: moved to a slower tier, dynamic
""")

TIERS_EXTENTS = _stored("""
    simulations/tiers_extents of simulate tiers: one row per touched extent
    device string: whole device or volume
    extent int64: number of the extent, from the start of `device`
    first_sector int64: its first 512-byte sector
    reads int64: read traffic: bytes or requests, as tiers.json says
    writes int64: write traffic, in the same unit
    tier string: where the best static mix places it
""")

TIERS_SKEW = _stored("""
    simulations/tiers_skew of simulate tiers: one row per role, operation and number of extents
    role string: role, or all
    operation string: read or write
    extent_count int64: the busiest extents of this role and operation
    capacity_ratio float64: their share of the role's extents, 0 to 1
    traffic_ratio float64: their share of its traffic, 0 to 1
""")

TIERS_WINDOWS = _stored("""
    simulations/tiers_windows of simulate tiers: with `--dynamic`, one row per configuration and
        window with traffic
    configuration string: name of the mix, as in tiers_key
    window_ns int64: start of the window; windows without traffic have no row
    reads list<int64>: read traffic of each tier
    writes list<int64>: write traffic of each tier
    latency_avg_ns float64: mean latency in the window
    promoted_bytes int64: moved to a faster tier after the window
    demoted_bytes int64: moved to a slower tier after the window
""")

TIERS_SENSITIVITY = _stored("""
    simulations/tiers_sensitivity of simulate tiers: one row per tier, parameter, factor and method
    tier string?: tier whose parameter is changed, null for one of the system
    parameter string: what is changed, named as in --vary
    factor float64: what it is multiplied with
    value float64: the changed value
    method string: static or dynamic
    mix string: best mix with the first tier, in words
    share_ratio list<float64>: shares of that mix on each tier, 0 to 1
    iops_per_price float64: of that mix
    without_iops_per_price float64: of the best mix without the first tier
    gain_ratio float64: what the first tier gains over having none, -1 up
    promoted_bytes int64?: moved to a faster tier, dynamic
    demoted_bytes int64?: moved to a slower tier, dynamic
""")

DEVICE_STEPS = _stored("""
    device/device_steps of characterize-device: one row per step and operation, and one per step
    step int32: number of the step, in order of measuring
    kind text: fill, precondition, round, random_write, random_read, size, sequential, flush,
        empty_flush, fua, surface, mixed or trace
    write_ratio float64: share of the requests that were to write
    depth int32: requests in flight
    length_bytes int64: length of each read and write
    operation text: read, write or flush; all for the step as a whole
    requests int64: requests that were done
    failed int64: requests that failed; in no latency
    elapsed_ns int64: of the step, first submission to last completion
    iops float64: requests done a second of elapsed_ns
    usual_iops float64?: rate that a quarter of the step's parts of 50 requests or more exceed,
        which pauses do not change; null for one operation of several
    mean_ns float64: latency, submission to completion: mean
    deviation_ns float64: its standard deviation, of the sample
    min_ns int64: the shortest
    p50_ns int64: nearest rank in buckets of 128 an octave
    p99_ns int64: as p50_ns
    p99_9_ns int64: as p50_ns
    max_ns int64: the longest
""")

DEVICE_LATENCY = _stored("""
    device/device_latency of characterize-device: one row per step and bucket of latencies
    step int32: step of `device_steps`
    kind text: random_write or random_read
    operation text: read or write
    low_ns int64: shortest latency that the bucket can hold
    high_ns int64: the first that is in it no more
    requests int64: requests in the bucket
    requests_ratio float64: share of the step's requests
""")

DEVICE_FIT = _stored("""
    device/device_fit of characterize-device: one row per parameter of the device
    parameter text: key of the device profile, or a figure beside it
    value float64: as measured, in the unit of the key's name
    spread_ratio float64?: how far off it may be: standard error of a mean, autocorrelation
        included, or the mean distance of the measurements from the fit; relative; null: not known
    known_value float64?: what an emulated device has; null for a real one
    error_ratio float64?: (value - known_value) / known_value; null without one
    is_in_profile bool: whether the profile that was written has it
""")

COUNTERS = _stored("""
    counters/counters of counters: one row per workload, run and event
    workload text: name of the workload
    run int32: number of the run, from 1
    source text: the command, or the recorded file
    event text: event as perf names it, without a modifier such as :u
    counted_group text: events that were counted together; empty: alone
    count float64?: as perf gives it: extrapolated where it counted only a part of the time;
        null: not counted
    unit text: unit of the count, such as msec; empty: events
    running_ratio float64?: share of the time in which it was counted; below 1 the events took
        turns
    reason text: why it was not counted; empty when it was
    throughput float64?: of the workload in this run; null: the recorded file does not tell
    throughput_unit text: where the throughput is from
    elapsed_ns int64?: of the run; null of a file
""")

COUNTER_STATISTICS = _stored("""
    counters/counter_statistics of counters: one row per workload and event
    workload text: name of the workload
    event text: event as in `counters`
    runs int32: runs in which it was counted
    mean float64: mean count of a run
    deviation float64?: standard deviation of the sample; null: one run
    least_running_ratio float64?: least share of the time in which it was counted
    correlation float64?: Pearson's, of count and throughput over the runs; null: below three
        runs, or one of both never changed
    correlation_low float64?: lower end of its 95% interval, by Fisher's z; null: below four
        runs
    correlation_high float64?: upper end of it
    p_value float64?: chance of a correlation as far from 0 where there is none
    spearman float64?: Spearman's correlation, of the ranks; null as Pearson's
    corrected_p_value float64?: p_value corrected for all events of the workload by Benjamini and
        Hochberg; up to 0.05: telling; null: no interval
    rank int32?: 1: the most telling event of the workload, whose interval stays farthest from
        0; null: no interval
""")

FILE_RUNS = _stored("""
    files/file_runs of sweep: one row per run and step, and one per run
    run_id string: names the run: its settings, and its number
    personality text: name of the personality
    target text: name of the target, as given or its directory
    is_dax bool: the file system there gives programs persistent memory itself, not copies in
        the page cache, or stands for one that does (memory:)
    run int32: number of the repeat, from 1
    threads int32: threads
    files int64?: parameter `files` of the personality
    io_bytes int64?: parameter `io_size`: bytes of a call
    settings string: all parameters of the personality, as JSON, and what its runs in this
        folder differ in beside them, such as --cache
    outcome text: finished, interrupted or full
    step text: what the personality calls an operation, such as read_file; all: the run
    elapsed_ns int64: measured time, less the mean of what the threads took to restore files
    steps int64: steps that ended as they should
    failed int64: steps that failed; in no latency
    bytes int64: bytes that they moved
    steps_per_second float64: steps by elapsed_ns, of all threads
    bytes_per_second float64: bytes by elapsed_ns, of all threads
    time_ratio float64: share of the time of all steps of the run
    mean_ns float64: latency: mean
    p50_ns int64?: nearest rank; at most 0.8% above it; null for all
    p90_ns int64?: as p50_ns
    p99_ns int64?: as p50_ns
    p99_9_ns int64?: as p50_ns
    max_ns int64?: the longest; null for all
    seed int64: of its plan: that asked for, and one more with each repeat
    position int32?: in the random order of the runs of its series, from 1; null: of an older
        version
    is_copy bool: the plan of an earlier repeat in a guest with --exact, where time is counted:
        the same run again, which is in no mean and no interval
    is_outlier bool: its rate stands out among its repeats: modified z-score of the logarithm
        above 3.5, of five repeats and more; it counts all the same
    steady_from_ns int64?: of the run: when its warm-up ended, by MSER-5, from the start of the
        measured time; null: not in its first half, or too short to say
    batch_low_per_second float64?: of the run: lower end of the 95% interval of steps_per_second
        by the means of 20 batches of its steady part; null also where steps_per_second, which has
        the warm-up in it, is outside
    batch_high_per_second float64?: upper end of it
""")

FILE_COMPARISONS = _stored("""
    files/file_comparisons of sweep: one row per setting of a personality and two of its targets
    personality text: name of the personality
    threads int32: threads
    files int64?: as in file_runs
    io_bytes int64?: as in file_runs
    settings string: as in file_runs
    target text: the one whose rate is divided
    other text: by the rate of this one
    run_count int32: repeats of the one with fewer, without copies
    is_paired bool: repeats of one number have the same plan and ran one after the other; else the
        targets have other repeats
    ratio float64?: geometric mean of steps_per_second of target by other; null: one did nothing
    ratio_low float64?: lower end of its 95% interval by Student's t of logarithms, of pairs, or
        Welch's; null: one repeat
    ratio_high float64?: upper end of it
    p_value float64?: chance of a ratio as far from 1 where there is no difference
    corrected_p_value float64?: by Holm over all rows; below 0.05: they differ
""")

TABLES = tuple(_stored_tables)
"""All but tables of which each replay or run has its own, and the findings, described in SQL."""

COMPLETIONS = _columns("""
    request_id int64: request of the trace
    intended_ns int64?: when the plan wanted it issued, from the run's start; null: at once
    submit_ns int64: when it was submitted, from the run's start
    complete_ns int64: when its completion was seen, from the run's start
    error int32: negative errno, 0 if none
    target int32: index of the target in summary.json
    status text: done, failed, unknown, or skipped_ read_only, out_of_range, unsupported or late
""")

OBSERVED = _columns("""
    request_id int64: request of the trace
    target int32: index of the target in summary.json
    intended_ns int64?: when the plan wanted it issued, from the run's start; null: at once
    submit_ns int64: when it was submitted, from the run's start
    complete_ns int64: when its completion was seen, from the run's start
    queue_ns int64?: when the kernel queued its first I/O (Q); null: not found among the events
    issue_ns int64?: when the first of them went to the driver (D); null: a device without queue
    device_complete_ns int64?: when the device had done the last of them (C)
    piece_count int32: I/Os that the kernel queued for it, flushes before its data among them
    merge_count int32: of these, merged into another one
    split_count int32: times they were split
""")

FILE_COMPLETIONS = _columns("""
    operation_id int64: of file_operations
    start_ns int64: the call began, from the start of the run
    end_ns int64: it returned
    operation text: as in file_operations
    done_bytes int64?: bytes that were moved; null unless it read or wrote
    error int32: errno of the call, 0 if none
    is_expected bool: it ended as it did in the trace
    is_timed bool: a call of the trace, no end of a process
    thread int32: thread of the plan
""")

SWEEP_OPERATIONS = _columns("""
    start_ns int64: the call began, from the start of the run
    end_ns int64: it returned
    thread int32: thread, from 0; behind those of the personality: of its asynchronous writes
    cycle int32: repetition of the plan, from 0
    operation text: system call, as in file_operations
    step text?: what the personality calls it, as in file_runs; null: what restores files
    done_bytes int64?: bytes that were moved; null unless it read or wrote
    error int32: errno of the call, 0 if none
    is_expected bool: it ended as it should
    is_timed bool: in the statistics: not of the warm-up nor restoring
""")

REPLAYED = Table("completions", "replay", "one row per replay and request", COMPLETIONS)
REPLAY_OBSERVED = Table(
    "observed", "replay --observe", "one row per replay and request submitted", OBSERVED
)
FILES_REPLAYED = Table(
    "file_completions", "replay --files", "one row per replay and file operation", FILE_COMPLETIONS
)
OPERATIONS_SWEPT = Table(
    "sweep_operations", "sweep --operations", "one row per run and operation", SWEEP_OPERATIONS
)
MADE_BY = {table.name: table.made_by for table in TABLES}


def role_codes(column: Any) -> NDArray[np.int32]:
    """Return each role's index in ROLES; any other name is `unknown`."""
    return np.minimum(name_codes(column, list(ROLES)), ROLES.index("unknown"))
