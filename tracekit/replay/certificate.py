"""`replays/<name>/certificate.json`: did a replay keep its limits, in numbers that others check?

All numbers come from the plan and the completions by SQL (`analyzers/lib/certified_*.sql`), none
from the histograms of the program, so that the two check each other.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import to_builtins
from msgspec.structs import replace

from tracekit import query
from tracekit._native.players import INTERFACE
from tracekit.arrow import number_column, text_column
from tracekit.machine_state import MachineState
from tracekit.metadata import Record
from tracekit.plans import Records, block_plan
from tracekit.replay.limits import COUNTS, NS, PERCENTILES, RATIO, Limit, Number
from tracekit.replay.partial_results import PLAN
from tracekit.replay.summary import (
    KERNEL,
    PROGRAM,
    KindCount,
    Measured,
    ReplaySummary,
    Speed,
    TargetReport,
    Verdict,
    Window,
    lateness_of,
)
from tracekit.safe_open import sha256_of
from tracekit.store import TraceFolder, write_batches
from tracekit.tables import OBSERVED
from tracekit.units import SECTOR_BYTES
from tracekit.version import __version__

SCHEMA = 1
CERTIFICATE = "certificate.json"
TABLE = "completions.parquet"
OBSERVED_TABLE = "observed.parquet"
PASS, FAIL, UNKNOWN = "pass", "fail", "cannot tell"
CONFIDENCE = 0.95
CHUNK_ROWS = 1 << 18
NEVER_NS = np.iinfo(np.int64).max
PLANNED = pa.schema(
    [
        pa.field("plan_row", pa.int64(), nullable=False),
        pa.field("request_id", pa.int64(), nullable=False),
        pa.field("target", pa.int32(), nullable=False),
        pa.field("operation", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("is_fua", pa.bool_(), nullable=False),
        pa.field("is_preflush", pa.bool_(), nullable=False),
        pa.field("length_bytes", pa.int64(), nullable=False),
        pa.field("due_ns", pa.int64()),
    ]
)
RANKS = pa.schema([pa.field("rank", pa.int64(), nullable=False)])


class RunFacts(Record):
    """What of a run its numbers depend on, beside the plan and the completions."""

    level: str
    measured_at: str
    lead_ns: int
    """How long before it was due each request was handed over."""
    pace: str
    speed: Speed
    window: Window
    max_idle_ns: int | None
    late: str


@dataclass(frozen=True)
class Facts:
    """What was counted and measured of the requests of a run."""

    counts: Mapping[str, Number]
    times: Mapping[int, int]
    """The issue error by its rank."""
    kinds: Sequence[Mapping[str, Any]]
    traced: Mapping[str, int] | None


def ranks(count: int, share: Fraction) -> tuple[int, int, int]:
    """Return the nearest rank of a percentile among `count` values, and of its bounds at 95 %.

    The value of rank k is not below the percentile with the probability that at most k - 1 of
    `count` values are below it, which is binomial; so the lowest k for which that is at least 95 %
    is that of the upper bound, and likewise of the lower one. Each holds on its own. A bound that
    needs more values has the rank 0.
    """
    from scipy.stats import binom

    low = int(binom.ppf(1 - CONFIDENCE, count, float(share)))
    high = int(binom.ppf(CONFIDENCE, count, float(share))) + 1
    return math.ceil(share * count), low, high if high <= count else 0


def least_count(share: Fraction) -> int:
    """Return how many values an upper bound of the percentile needs."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(share))


def share_of(measure: str) -> Fraction:
    """Return the share of a percentile such as p99.9."""
    return Fraction(measure[1:]) / 100


def judge(
    limits: Mapping[str, Limit], facts: Facts, *, run: RunFacts, summary: ReplaySummary
) -> Verdict:
    """Return the verdict on what was measured."""
    read_ns, counts = summary.clock.read_ns, facts.counts
    measures = [_measured(limit, facts, run.measured_at, read_ns) for limit in limits.values()]
    verdicts = {one.verdict for one in measures}
    found = FAIL if FAIL in verdicts else UNKNOWN if UNKNOWN in verdicts else PASS
    doubts = list(doubts_of(summary, facts))
    requests = {name: int(counts[f"{name}_count"]) for name in ("planned", "done", "timed")}
    return Verdict(
        verdict=UNKNOWN if doubts else found,
        level=run.level,
        measured_at=run.measured_at,
        doubts=doubts,
        measures=measures,
        requests=requests,
        kinds=[
            KindCount(
                kind=row["kind"],
                traced=None if facts.traced is None else facts.traced.get(row["kind"], 0),
                planned=row["planned_count"],
                planned_bytes=row["planned_bytes"],
                done=row["done_count"],
            )
            for row in facts.kinds
        ],
    )


def _measured(limit: Limit, facts: Facts, measured_at: str, read_ns: int) -> Measured:
    name = limit.measure
    if name in PERCENTILES:
        found = _percentile(limit, facts)
    else:
        observed = _observed(limit, facts.counts, measured_at)
        found = _against(limit, observed, observed, observed)
    is_time = limit.unit == NS
    if is_time and limit.value < read_ns and found.verdict != FAIL:
        found.verdict = UNKNOWN
        found.why = f"a reading of the clock alone takes {read_ns} ns"
    return found


def _percentile(limit: Limit, facts: Facts) -> Measured:
    share, count = share_of(limit.measure), int(facts.counts["timed_count"])
    values = [facts.times[rank] if rank else None for rank in ranks(count, share)]
    found = _against(limit, *values)
    if found.high is None and found.verdict == UNKNOWN:
        found.why = f"{count:,} requests: a bound needs {least_count(share):,}"
    return found


def _against(
    limit: Limit, observed: Number | None, low: Number | None, high: Number | None
) -> Measured:
    """Compare bounds with a limit; what was counted is its own bound."""
    if high is not None and high <= limit.value:
        verdict, why = PASS, None
    elif low is not None and low > limit.value:
        verdict, why = FAIL, None
    else:
        verdict = UNKNOWN
        why = "not measured" if observed is None else "the limit is between the bounds"
    has_bounds = limit.measure in PERCENTILES
    return Measured(
        measure=limit.measure,
        unit=limit.unit,
        limit=limit.value,
        observed=observed,
        low=low if has_bounds else None,
        high=high if has_bounds else None,
        verdict=verdict,
        why=why,
    )


def _observed(limit: Limit, counts: Mapping[str, Number], measured_at: str) -> Number | None:
    """Return a measure that is no percentile in the unit of its limit; None: nobody measured it."""
    name = limit.measure
    if name in COUNTS:
        is_of_kernel = name in ("merged", "split")
        if is_of_kernel and measured_at == PROGRAM:
            return None
        count = counts["planned_count"] - counts["done_count"]
        count = count if name == "errors" else counts[f"{name}_count"]
        return count if limit.unit != RATIO else count / max(counts["planned_count"], 1)
    if not counts["timed_count"]:
        return None
    if name == "max":
        return counts["error_max_ns"]
    off_ns = counts["drift_ns"] if name == "drift" else counts["issued_ns"] - counts["due_ns"]
    if limit.unit == NS:
        return round(abs(off_ns))
    return abs(off_ns) / counts["due_ns"] if counts["due_ns"] else None


def run_facts(summary: ReplaySummary, *, max_idle_ns: int | None) -> RunFacts:
    """Return what of a run its numbers depend on."""
    return RunFacts(
        level=summary.plan.level,
        measured_at=KERNEL if summary.observed else PROGRAM,
        lead_ns=summary.clock.lead_ns or 0,
        pace=summary.pace,
        speed=summary.speed,
        window=summary.window,
        max_idle_ns=max_idle_ns,
        late=summary.late.policy,
    )


def measure(
    place: Path,
    run: RunFacts,
    *,
    limits: Mapping[str, Limit],
    trace: TraceFolder | None = None,
) -> Facts:
    """Count and measure the requests of the run in `place`, from its plan and its completions.

    With a trace its requests are counted by kind, too.
    """
    clock = 0 if run.measured_at == PROGRAM else 1 + block_plan.LEVELS.index(run.level)
    by = {"clock": clock, "lead_ns": 0 if clock else run.lead_ns}
    with _database(place, run) as (connection, scratch):
        (counts,) = query.run(connection, "lib/certified_counts", **by).to_pylist()
        shares = [share_of(name) for name in limits if name in PERCENTILES]
        wanted = {r for share in shares for r in ranks(counts["timed_count"], share) if r}
        batch = pa.RecordBatch.from_pydict({"rank": sorted(wanted)}, RANKS)
        write_batches(scratch / "ranks.parquet", [batch], schema=RANKS)
        query.add_view(connection, "wanted_ranks", scratch / "ranks.parquet")
        times = query.run(connection, "lib/certified_ranks", **by).to_pylist()
        kinds = query.run(connection, "lib/certified_kinds", **by).to_pylist()
        traced = None
        if trace is not None:
            query.add_view(connection, "requests", trace.table("requests"))
            only = int(run.level == "issued")
            rows = query.run(connection, "lib/traced_kinds", issued_only=only).to_pylist()
            traced = {row["kind"]: row["traced_count"] for row in rows}
    return Facts(counts, {row["rank"]: row["error_ns"] for row in times}, kinds, traced)


@contextmanager
def _database(place: Path, run: RunFacts) -> Iterator[tuple[Any, Path]]:
    """Yield a database with the view `certified_requests`, and a folder for more tables.

    It works in one thread, so that sums of fractions come out the same each time.
    """
    with tempfile.TemporaryDirectory(prefix="tracekit-") as name:
        scratch = Path(name)
        write_batches(scratch / "plan.parquet", _planned(place / PLAN, run), schema=PLANNED)
        connection = query.empty(near=scratch / "certificate", threads=1)
        try:
            query.add_view(connection, "certified_plan", scratch / "plan.parquet")
            query.add_view(connection, "certified_completions", place / TABLE)
            observed = place / OBSERVED_TABLE
            if run.measured_at == PROGRAM:
                observed = scratch / OBSERVED_TABLE
                write_batches(observed, [], schema=OBSERVED)
            query.add_view(connection, "certified_observed", observed)
            yield connection, scratch
        finally:
            connection.close()


def _planned(plan: Path, run: RunFacts) -> Iterator[Any]:
    """Yield the records that were to run, each with the time at which it was due."""
    window, is_by_plan = run.window, run.pace == "trace"
    records = block_plan.map_records(plan)[window.first : window.end]
    before_ns, cut_ns = window.from_ns, 0
    most_ns = NEVER_NS if run.max_idle_ns is None else run.max_idle_ns
    for first in range(0, len(records), CHUNK_ROWS):
        rows = records[first : first + CHUNK_ROWS]
        raw_ns = rows["intended_ns"].astype(np.int64)
        cuts_ns = cut_ns + np.cumsum(np.maximum(np.diff(raw_ns, prepend=before_ns) - most_ns, 0))
        before_ns, cut_ns = int(raw_ns[-1]), int(cuts_ns[-1])
        # As the program divides: in whole numbers, rounded down.
        whole, rest = np.divmod(raw_ns - window.from_ns - cuts_ns, run.speed.numerator)
        scale = run.speed.denominator
        due_ns = whole * scale + rest * scale // run.speed.numerator
        yield _batch(rows, window.first + first, due_ns if is_by_plan else None)


def _batch(rows: Records, first: int, due_ns: Any) -> Any:
    moves_data = rows["operation"] != block_plan.FLUSH
    columns = {
        "plan_row": number_column(np.arange(first, first + len(rows), dtype=np.int64)),
        "request_id": number_column(rows["request_id"].astype(np.int64)),
        "target": number_column(rows["target"].astype(np.int32)),
        "operation": text_column(rows["operation"].astype(np.int32), block_plan.OPERATIONS),
        "is_fua": number_column((rows["flags"] & block_plan.FUA) != 0),
        "is_preflush": number_column((rows["flags"] & block_plan.PREFLUSH) != 0),
        "length_bytes": number_column(
            rows["length_sectors"].astype(np.int64) * SECTOR_BYTES * moves_data
        ),
        "due_ns": pa.nulls(len(rows), pa.int64()) if due_ns is None else number_column(due_ns),
    }
    return pa.RecordBatch.from_pydict(columns, PLANNED)


def doubts_of(summary: ReplaySummary, facts: Facts) -> Iterator[str]:
    """Yield why a verdict cannot be given, whatever was measured."""
    yield from _doubts_of_run(summary)
    # What the completions contradict: the plan, or what the program itself counted.
    counts, program = facts.counts, summary.counts
    if foreign := counts["foreign_count"]:
        yield f"{foreign:,} completions are not of the plan"
    if (counts["planned_count"], counts["done_count"]) != (program.planned, program.done):
        yield (
            f"the program counted {program.done:,} of {program.planned:,} requests done, in its"
            f" completions are {counts['done_count']:,} of {counts['planned_count']:,}"
        )
    if (moved := counts["moved_count"]) and summary.late.policy != "slip":
        yield f"{moved:,} requests were due at another time than by the plan"


def _doubts_of_run(summary: ReplaySummary) -> Iterator[str]:
    if summary.outcome != "finished":
        yield f"the run is not whole: {summary.outcome}"
    if summary.resumed:
        yield f"it goes on with the run {summary.resumed}: there is a gap between them"
    if not summary.clock.source:
        yield "the kernel does not say what its clock is"
    if overruns := summary.engine.overruns:
        yield f"the data of {overruns:,} requests were there later than the device was done"
    for device in summary.emulation.beyond if summary.emulation else ():
        yield f"the emulation was too late: {lateness_of(device)}"
    if summary.clock.lead_followed and not summary.observed:
        yield "requests were handed over by leads that their completions do not hold"
    if seen := summary.observed:
        for count, what in (
            (seen.lost_events, "events of the kernel were lost"),
            (seen.unmatched, "requests were not found among the kernel's events"),
            (seen.misplaced, "requests have the kernel's times outside of the program's"),
        ):
            if count:
                yield f"{count:,} {what}"


class CertifiedTarget(Record):
    """Where requests went; `identity` is what confirms the target."""

    label: str
    kind: str
    identity: str | None
    size_bytes: int | None
    is_direct: bool


class Certificate(Record):
    """The content of certificate.json."""

    schema: int
    result: Verdict
    run: RunFacts
    trace_sha256: str
    files: dict[str, str]
    """SHA-256 of the files beside it from which all numbers come."""
    engine: str | None
    devices: list[str]
    targets: list[CertifiedTarget]
    machine: MachineState
    program: str
    asked: list[str] | None
    checksum: str = ""
    """SHA-256 of the certificate with this left empty: it shows damage."""


def certify(
    place: Path,
    summary: ReplaySummary,
    *,
    limits: Mapping[str, Limit],
    max_idle_ns: int | None,
    trace: TraceFolder | None = None,
) -> Certificate:
    """Judge the run whose plan and completions are in `place`.

    Give the trace if all of it was replayed: how many requests of each kind it has is kept, too.
    """
    run = run_facts(summary, max_idle_ns=max_idle_ns)
    facts = measure(place, run, limits=limits, trace=trace)
    certificate = Certificate(
        schema=SCHEMA,
        result=judge(limits, facts, run=run, summary=summary),
        run=run,
        trace_sha256=summary.plan.trace_sha256,
        files={
            name: sha256_of(place / name)
            for name in (PLAN, TABLE, *([] if run.measured_at == PROGRAM else [OBSERVED_TABLE]))
        },
        engine=summary.engine.used,
        devices=summary.devices,
        targets=[*map(_target, summary.targets)],
        machine=summary.machine,
        program=f"tracekit {__version__}, {INTERFACE}",
        asked=summary.asked,
    )
    return replace(certificate, checksum=checksum_of(certificate))


def _target(target: TargetReport) -> CertifiedTarget:
    return CertifiedTarget(
        label=target.label,
        kind=target.kind,
        identity=target.confirm_with or target.path,
        size_bytes=target.size_bytes or None,
        is_direct=target.is_direct,
    )


def checksum_of(certificate: Certificate) -> str:
    """Return the SHA-256 of a certificate without its checksum."""
    content = to_builtins(replace(certificate, checksum=""))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
