"""`replay --certify` and `verify-certificate`: against own arithmetic, the kernel, and forgers."""

import json
import math
import shutil
from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from scipy import stats
from typer.testing import Result

from tests.command_line import invoke, refused
from tests.replay.disk import image, loop, token_of
from tests.replay.test_kernel import bios, kernel_test, traced
from tests.replay.trace import trace
from tracekit import store
from tracekit.errors import BudgetError, InputError, UnclearError, UsageError
from tracekit.replay.certificate import (
    Certificate,
    Facts,
    RunFacts,
    checksum_of,
    judge,
    least_count,
    ranks,
)
from tracekit.replay.limits import parse_certify
from tracekit.replay.summary import (
    Clock,
    EmulatedDevice,
    Emulation,
    Engine,
    Late,
    Observed,
    OrderChanges,
    ReplaySummary,
    RequestCounts,
    Speed,
    Window,
    summary_of,
)
from tracekit.report.sections.replay import certified
from tracekit.store import TraceFolder

MS = 1_000_000
GIB = 1 << 30
MIXED: list[dict[str, Any]] = [
    {"operation": "read"},
    {"is_preflush": True, "is_fua": True},
    {"is_fua": True},
    {"operation": "flush", "length_bytes": 0, "is_preflush": True},
    {"is_preflush": True},
    {"operation": "discard", "length_bytes": 5 * GIB, "sector": 8 * 1024},
    {"length_bytes": 0, "is_preflush": True},
    {"operation": "write"},
]
"""What a journal asks for, and a discard wider than the kernel's 32 bits of bytes."""
KINDS = {"FUA write": 5, "discard": 5, "flush": 10, "preflush FUA write": 5, "preflush write": 5,
         "read": 5, "write": 5}  # fmt: skip
EVERY = "p50=1s,p90=1s,max=10s,duration=1s,drift=1s,errors=0,lost=0,order=0"


def steady(path: Path, count: int = 300, gap_ns: int = MS // 10) -> TraceFolder:
    rows = [
        {"queue_ns": MS + n * gap_ns, "complete_ns": 2 * MS + n * gap_ns, "sector": 8 * n,
         "operation": "read"}
        for n in range(count)
    ]  # fmt: skip
    return trace(path, rows)


def mixed(path: Path, rounds: int = 5) -> TraceFolder:
    rows: list[dict[str, Any]] = []
    for n in range(rounds * len(MIXED)):
        at_ns = n * MS
        rows.append(
            {"queue_ns": at_ns, "complete_ns": at_ns + MS // 2, "sector": 8 * n} | MIXED[n % 8]
        )
    return trace(path, rows)


def replay(folder: TraceFolder, limits: str, *words: str, engine: str = "null") -> Result:
    words = (*words, *(("--engine", engine) if engine else ()))
    return invoke("replay", folder.path, "--certify", limits, *words)


def certificate(folder: TraceFolder, name: str = "latest") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place(folder, name).joinpath("certificate.json").read_text())
    return found


def place(folder: TraceFolder, name: str = "latest") -> Path:
    return folder.path / "replays" / name


def measured(content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["measure"]: one for one in content["result"]["measures"]}


@pytest.mark.parametrize("share", [Fraction(1, 2), Fraction(9, 10), Fraction(99, 100)])
def test_ranks_are_those_of_the_binomial_distribution(share: Fraction) -> None:
    part, whole = share.numerator, share.denominator
    for count in (1, 2, 5, 28, 29, 100, 298, 299, 300):
        # GIVEN how likely at most k of the values lie below the percentile, in whole numbers
        terms = [
            math.comb(count, k) * part**k * (whole - part) ** (count - k) for k in range(count + 1)
        ]
        at_most, level = [*accumulate(terms)], 95 * whole**count
        highs = [k for k in range(1, count + 1) if 100 * at_most[k - 1] >= level]
        lows = [k for k in range(1, count + 1) if 100 * (whole**count - at_most[k - 1]) >= level]
        expected = (math.ceil(share * count), max(lows, default=0), min(highs, default=0))
        assert ranks(count, share) == expected
    assert ranks(least_count(share), share)[2] > 0 == ranks(least_count(share) - 1, share)[2]


def test_bounds_hold_as_often_as_they_say() -> None:
    # GIVEN 2000 runs of 1000 requests whose 99th percentile is known
    random = np.random.default_rng(3)
    runs = np.sort(random.exponential(1.0, (2000, 1000)), axis=1)
    _, low, high = ranks(1000, Fraction(99, 100))
    true = -math.log(0.01)
    # THEN each bound is wrong in at most 5 % of them, and not much less: ranks are whole numbers
    above, below = (runs[:, high - 1] < true).mean(), (runs[:, low - 1] > true).mean()
    assert 0.015 < above < 0.065
    assert 0.015 < below < 0.065


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("p98=1ms", "--certify p98=1ms: not MEASURE=LIMIT"),
        ("p99", "--certify p99: not MEASURE=LIMIT"),
        ("p99=1", "--certify p99: '1' is not a time"),
        ("p99=1%", "--certify p99: '1%' is not a time"),
        ("errors=some", "--certify errors: 'some' is not a number of requests"),
        ("order=-1", "--certify order: '-1' is not a number of requests"),
        ("p99=1ms,p99=2ms", "a measure has two limits"),
        ("", "--certify : not MEASURE=LIMIT"),
        ("p99=1ms,", "--certify : not MEASURE=LIMIT"),
        ("mean=1ms", "--certify mean=1ms: not MEASURE=LIMIT"),
    ],
)
def test_what_is_no_limit_is_refused(limits: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_certify([limits])
    assert message in str(raised.value)


def test_limits_are_checked_before_the_run(tmp_path: Path) -> None:
    folder = steady(tmp_path / "trace", 30)
    refused(replay(folder, "p98=1ms"), "--certify p98=1ms: not MEASURE=LIMIT")
    refused(replay(folder, "errors=0,p99=1s", "--pace", "fast"), "no times to keep")
    assert not (folder.path / "replays").exists()
    assert replay(folder, "errors=0,order=0", "--pace", "fast").exit_code == 0


def drift_of(due: Any, late: Any) -> float:
    """Return the median slope between the medians of 64 parts, over the run."""
    share = -(-len(due) // 64)
    order = np.argsort(due, kind="stable")
    parts = [order[n : n + share] for n in range(0, len(due), share)]
    medians = [sorted(late[part])[(len(part) - 1) // 2] for part in parts]
    middles = [(due[part].min() + due[part].max()) / 2 for part in parts]
    return float(stats.theilslopes(medians, middles)[0] * np.ptp(due))


VARIANTS = (
    "", "--speed 3/2", "--speed 0.7", "--max-idle 60us", "--start 2ms --end 20ms", "--limit 123",
    "--start 2.05ms --max-idle 61us --speed 7/3", "--pace closed", "--late slip --late-limit 1ns",
)  # fmt: skip


@pytest.mark.parametrize("words", VARIANTS)
def test_numbers_are_those_of_own_arithmetic(tmp_path: Path, words: str) -> None:
    folder = steady(tmp_path / "trace", 400, 100_003)
    done = replay(folder, EVERY, *words.split())
    assert done.exit_code == 0, done.output
    content, found = certificate(folder), measured(certificate(folder))
    rows = pq.read_table(place(folder) / "completions.parquet").sort_by("request_id").to_pydict()
    due, issued = np.array(rows["intended_ns"]), np.array(rows["submit_ns"])
    if "slip" in words:
        # What has slipped is late by the plan, whatever the program took for its time.
        due = np.array(rows["request_id"]) * 100_003
    error = np.sort(abs(issued - due))
    count = content["result"]["requests"]["timed"]
    assert count == len(error) == content["result"]["requests"]["done"]
    for name, share in (("p50", 0.5), ("p90", 0.9)):
        assert found[name]["observed"] == error[math.ceil(share * count) - 1]
        low, high = (stats.binom.ppf(level, count, share) for level in (0.05, 0.95))
        assert found[name]["low"] == error[int(low) - 1]
        assert found[name]["high"] == error[int(high)]
    assert found["max"]["observed"] == error[-1]
    assert found["duration"]["observed"] == abs(np.ptp(issued) - np.ptp(due))
    assert found["drift"]["observed"] == round(abs(drift_of(due, issued - due)))
    assert {one["verdict"] for one in found.values()} == {"pass"}
    # AND computing them again finds nothing else
    again = invoke("verify-certificate", place(folder))
    assert again.exit_code == 0, again.output


def facts(errors: list[int], **counts: float) -> Facts:
    """Return what a run of such errors has, all due 1 ms apart."""
    ordered = [0, *sorted(errors)]
    due_ns = len(errors) * MS
    defaults = {
        "planned_count": len(errors), "done_count": len(errors), "timed_count": len(errors),
        "lost_count": 0, "foreign_count": 0, "order_count": 0, "moved_count": 0,
        "merged_count": 2, "split_count": 0,
        "error_max_ns": max(errors), "due_ns": due_ns, "issued_ns": due_ns, "drift_ns": 0.0,
    }  # fmt: skip
    return Facts({**defaults, **counts}, dict(enumerate(ordered)), [], None)


def summary(count: int, **changes: Any) -> ReplaySummary:
    clock = Clock("CLOCK_MONOTONIC", changes.pop("source", "tsc"), 40, 0, 0, 0, 0)
    engine = Engine("null", "null", overruns=changes.pop("overruns", 0))
    counts = RequestCounts(planned=count, done=changes.pop("done", count))
    late = Late("catch-up", 0, 0, 0, 0, 0, 0, 0)
    values = {"outcome": "finished", **changes}
    return ReplaySummary(clock=clock, engine=engine, counts=counts, late=late, **values)


RUN = RunFacts(
    level="queued", measured_at="program", lead_ns=0, pace="trace", speed=Speed(1, 1),
    max_idle_ns=None, late="catch-up",
    window=Window(first=0, end=0, from_ns=0, idle_gaps_cut=0, idle_cut_ns=0),
)  # fmt: skip
SEEN = Observed(
    source="tracefs", devices=["loop0"], lost_events=0, lead_ns=0, boot_id="", refused=0, joined=1,
    unmatched=0, uncached=0, ambiguous=0, foreign=0, foreign_processes={}, unexplained=0,
    queue_error_ns=None, issue_error_ns=None, queue_lag_ns=None, merged=0, split=0, misplaced=0,
    order_changes=OrderChanges(queue=0, issue=0),
)  # fmt: skip
LATE = Emulation(
    is_within_budget=False, lateness_ratio=2, budget={},
    devices=[EmulatedDevice(target="hdd", requests=0, released=None, modelled=None, lateness=None,
                            modelled_sum_ns=1, lateness_sum_ns=2, lateness_ratio=2,
                            is_within_budget=False)],
)  # fmt: skip
MOST_FAST = [10] * 985 + [5000] * 15


@pytest.mark.parametrize(
    ("limits", "errors", "counts", "changes", "expected", "why"),
    [
        ("p50=1us", [10] * 5, {}, {}, "pass", None),
        ("p50=1us", [10] * 4, {}, {}, "cannot tell", "4 requests: a bound needs 5"),
        ("p50=1us", [5000] * 6, {}, {}, "fail", None),
        ("p99=1us", [10] * 298, {}, {}, "cannot tell", "298 requests: a bound needs 299"),
        ("p99.9=1us", [10] * 100, {}, {}, "cannot tell", "100 requests: a bound needs 2,995"),
        ("p99=1us", [10] * 1000, {}, {}, "pass", None),
        # Of 1000 requests 15 are beyond the limit: 985 of 1000 can be 99 % by chance.
        ("p99=1us", MOST_FAST, {}, {}, "cannot tell", "the limit is between the bounds"),
        ("p90=1us", MOST_FAST, {}, {}, "pass", None),
        ("p99=1us", [10] * 970 + [5000] * 30, {}, {}, "fail", None),
        ("p50=39ns", [10] * 100, {}, {}, "cannot tell", "a reading of the clock alone takes 40 ns"),
        ("max=5us", [10, 5000], {}, {}, "pass", None),
        ("max=4us", [10, 5000], {}, {}, "fail", None),
        ("drift=0.1%", [10] * 10, {"drift_ns": -9e3}, {}, "pass", None),
        ("drift=0.1%", [10] * 10, {"drift_ns": -11e3}, {}, "fail", None),
        ("duration=1us", [10] * 10, {"issued_ns": 10 * MS - 1001}, {}, "fail", None),
        ("order=0", [10], {"order_count": 1}, {}, "fail", None),
        ("order=10%", [10] * 10, {"order_count": 1}, {}, "pass", None),
        ("order=9%", [10] * 10, {"order_count": 1}, {}, "fail", None),
        ("merged=0", [10], {}, {}, "cannot tell", "not measured"),
        # Requests that failed or are lost count whether or not anybody asked.
        ("max=1s", [10] * 9, {"done_count": 8}, {"done": 8}, "fail", None),
        ("max=1s,errors=20%", [10] * 9, {"done_count": 8}, {"done": 8}, "pass", None),
        ("max=1s", [10] * 9, {"lost_count": 1}, {}, "fail", None),
        # Doubts take the verdict away, whatever was measured.
        ("max=1s", [10], {}, {"outcome": "interrupted"}, "cannot tell", "not whole: interrupted"),
        ("max=1s", [10], {}, {"resumed": "a"}, "cannot tell", "goes on with the run a"),
        ("max=1s", [10], {}, {"source": None}, "cannot tell", "does not say what its clock is"),
        ("max=1s", [10], {}, {"overruns": 3}, "cannot tell", "the data of 3 requests were there"),
        ("max=1s", [10], {}, {"emulation": LATE}, "cannot tell", "the emulation was too late: hdd"),
        ("max=1s", [10], {}, {"observed": SEEN}, "pass", None),
        ("max=1s,merged=1", [10], {}, {"observed": SEEN}, "fail", None),
        ("max=1s,split=0", [10], {}, {"observed": SEEN}, "pass", None),
        ("max=1s", [10], {}, {"observed": replace(SEEN, lost_events=2)}, "cannot tell", "2 events"),
        ("max=1s", [10], {}, {"observed": replace(SEEN, unmatched=1)}, "cannot tell", "1 requests"),
        ("max=1s", [10], {}, {"observed": replace(SEEN, misplaced=1)}, "cannot tell", "outside of"),
        ("max=1s", [10], {"foreign_count": 2}, {}, "cannot tell", "2 completions are not of"),
        ("max=1s", [10], {}, {"done": 0}, "cannot tell", "the program counted 0 of 1"),
        ("max=1s", [10], {"moved_count": 1}, {}, "cannot tell", "1 requests were due at another"),
    ],
)
def test_verdicts(
    limits: str, errors: list[int], counts: dict[str, float], changes: dict[str, Any],
    expected: str, why: str | None,
) -> None:  # fmt: skip
    parsed = parse_certify([limits])
    run = replace(RUN, measured_at="kernel" if "observed" in changes else "program")
    of_run = summary(len(errors), **changes)
    verdict = judge(parsed, facts(errors, **counts), run=run, summary=of_run)
    assert verdict.verdict == expected
    whys = [*verdict.doubts, *(one.why for one in verdict.measures if one.why)]
    assert (why is None and not whys) or any(why in one for one in whys if why)


def test_each_verdict_has_its_exit_code(tmp_path: Path) -> None:
    folder = steady(tmp_path / "trace", 50)
    done = replay(folder, "p50=1s,p90=1s")
    assert done.exit_code == 0
    assert "certificate: pass (as queued, by the program's clock)" in done.stdout
    failed = replay(folder, "p50=1s,max=0ns,p99=1s")
    refused(failed, "latest, certificate: fail: max fail, p99 cannot tell", error=BudgetError)
    unclear = replay(folder, "p99=1s")
    refused(unclear, "latest, certificate: cannot tell: p99", error=UnclearError)
    assert (BudgetError.exit_code, UnclearError.exit_code) == (4, 5)
    assert "50 requests: a bound needs 299" in unclear.stdout
    # AND the report has it
    content = json.loads((place(folder) / "summary.json").read_text())
    assert "Certificate: cannot tell (as queued" in certified(content)[0]
    assert certified({**content, "certificate": None}) == []


def test_writes_that_were_skipped_are_errors(tmp_path: Path) -> None:
    folder, target = mixed(tmp_path / "trace"), image(tmp_path / "target", mib=6 << 10)
    done = replay(folder, "max=100s", "--target", str(target), engine="io_uring")
    refused(done, "certificate: fail: errors fail", error=BudgetError)
    assert measured(certificate(folder))["errors"]["observed"] == 40 - KINDS["read"] - 10


@kernel_test
@pytest.mark.parametrize("pace", ["trace", "closed"])
def test_kinds_are_counted_as_the_trace_has_them(tmp_path: Path, pace: str) -> None:
    # GIVEN journal commits, wide discards and flushes, in the trace's order and in a closed loop
    folder = mixed(tmp_path / "trace")
    with loop(image(tmp_path / "image", mib=6 << 10), "--direct-io=on") as disk:
        words = ("--pace", pace, "--target", str(disk), "--write-to", token_of(disk))
        with traced("block_bio_queue", only=disk) as lines:
            done = replay(folder, "max=100s,order=100%", *words, engine="io_uring")
    assert done.exit_code == 0, done.output
    # THEN each is one request, as in the trace
    kinds = certificate(folder)["result"]["kinds"]
    for key in ("traced", "planned", "done"):
        assert {one["kind"]: one[key] for one in kinds} == KINDS
    # AND the kernel got as many writes with data, all of the discards, and a flush for each that
    # asks for one alone or before its data
    seen = bios(lines)
    discards = [sectors for flags, _, sectors in seen if flags.startswith("D")]
    assert sum(discards) * 512 == 25 * GIB
    assert len(discards) > KINDS["discard"]
    (wide,) = [one for one in kinds if one["kind"] == "discard"]
    assert wide["planned_bytes"] == 25 * GIB
    writes = [flags for flags, _, sectors in seen if flags.startswith("W") and sectors]
    assert sorted(writes) == ["W"] * 10 + ["WF"] * 10
    flushes = [flags for flags, _, sectors in seen if "F" in flags and not sectors]
    assert len(flushes) == KINDS["flush"] + KINDS["preflush write"] + KINDS["preflush FUA write"]


def test_a_request_in_pieces_is_one(tmp_path: Path) -> None:
    # GIVEN a read that lies on two targets by its parts, which a plan has as two records
    folder = steady(tmp_path / "trace", 40)
    done = replay(folder, "max=100s")
    assert done.exit_code == 0
    plan, table = place(folder) / "plan.bin", place(folder) / "completions.parquet"
    rows = pq.read_table(table)
    ids = rows["request_id"].to_pylist()
    # WHEN two records have one id
    content = bytearray(plan.read_bytes())
    content[192 + 48 * 7 + 16 : 192 + 48 * 7 + 24] = (6).to_bytes(8, "little")
    plan.write_bytes(content)
    changed = pa.array([6 if one == 7 else one for one in ids], pa.int64())
    pq.write_table(rows.set_column(0, rows.schema.field(0), changed), table)
    found = invoke("verify-certificate", place(folder), "--json")
    # THEN they are one request, and each record still has its own times
    (line,) = [
        one for one in str(found.exception).splitlines() if ".kinds" in one and "done" in one
    ]
    assert "40 in the certificate, 39 by the files" in line
    assert "measures" not in str(found.exception)


def forged(folder: Path, content: dict[str, Any], *, signs: bool) -> list[str]:
    """Write a certificate, with a checksum of its own, and return what is found."""
    if signs:
        made = msgspec.convert({**content, "checksum": ""}, Certificate)
        content = {**content, "checksum": checksum_of(made)}
    store.write_json(folder / "certificate.json", content)
    refused(done := invoke("verify-certificate", folder), "is not what the files", error=InputError)
    return str(done.exception).splitlines()[1:]


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """Return the folder of a replay as somebody else has got it: without its trace."""
    folder = mixed(tmp_path / "trace", 50)
    refused(replay(folder, f"{EVERY},p99.9=1s"), "cannot tell", error=UnclearError)
    shutil.copytree(place(folder), tmp_path / "given")
    done = invoke("verify-certificate", tmp_path / "given" / "certificate.json")
    assert done.exit_code == 0, done.output
    return tmp_path / "given"


def test_an_edited_number_is_found(given: Path) -> None:
    content = json.loads((given / "certificate.json").read_text())
    # WHEN every number of the verdict is another, with a checksum to match
    kept = {key: content["result"][key] for key in ("verdict", "level", "measured_at", "doubts")}
    keep = ("limit", "unit", "measure", "kind", "verdict", "why")
    changed = {
        name: [
            {k: v if k in keep or v is None else v + 1 for k, v in one.items()}
            for one in content["result"][name]
        ]
        for name in ("measures", "kinds")
    }
    requests = {key: count + 1 for key, count in content["result"]["requests"].items()}
    result = {**kept, **changed, "requests": requests}
    found = forged(given, {**content, "result": result}, signs=True)
    # THEN each of them is named, but for those that only the trace itself can tell
    numbers = [
        f"result.{name}[{number}].{key}"
        for name, rows in changed.items()
        for number, one in enumerate(rows)
        for key in one
        if key not in (*keep, "traced") and one[key] is not None
    ]
    numbers += [f"result.requests.{key}" for key in requests]
    named = {line.partition(":")[0] for line in found}
    assert len(numbers) > 30
    assert set(numbers) <= named


def with_value(content: Any, path: str, value: Any) -> Any:
    """Return a copy of JSON with another value at a place such as `run.speed`."""
    key, _, rest = path.replace("plan.bin", "plan/bin").partition(".")
    key = key.replace("/", ".")
    part = content[int(key) if isinstance(content, list) else key]
    changed = with_value(part, rest, value) if rest else value
    if isinstance(content, list):
        return [changed if n == int(key) else one for n, one in enumerate(content)]
    return {**content, key: changed}


def test_an_edited_text_is_found(given: Path) -> None:
    content = json.loads((given / "certificate.json").read_text())
    edits: dict[str, Any] = {
        "result.verdict": "pass", "result.measures.0.verdict": "fail", "result.level": "issued",
        "trace_sha256": "00", "files.plan.bin": "00", "targets.0.kind": "file", "asked": ["--x"],
        "engine": "io_uring",
    }  # fmt: skip
    named = {
        *("result.verdict", "result.measures[0].verdict", "result.level", "trace_sha256"),
        *("files.plan.bin", "targets[0].kind", "asked[0]", "engine", "result"),
    }
    forgery = content
    for path, value in edits.items():
        forgery = with_value(forgery, path, value)
    found = {line.partition(":")[0] for line in forged(given, forgery, signs=True)}
    assert named <= found
    # AND what the numbers depend on is found by the numbers
    later: tuple[tuple[str, Any, str], ...] = (
        ("run.speed.numerator", 2, "run.speed.numerator"),
        ("run.window.from_ns", 7, "run.window.from_ns"),
        ("run.max_idle_ns", 5, "result.doubts[0]"),
        ("result.measures.0.limit", 5, "result"),
    )
    for path, value, place_of in later:
        lines = forged(given, with_value(content, path, value), signs=True)
        assert any(line.startswith(f"{place_of}:") for line in lines), lines


def test_what_a_certificate_does_not_have_is_found(given: Path) -> None:
    file = given / "certificate.json"
    text = file.read_text()
    for more in ('"approved": true,', '"result": {"verdict": "pass"},'):
        file.write_text(text.replace("{", "{" + more, 1))
        done = invoke("verify-certificate", given)
        assert done.exit_code == 1, more


def test_a_checksum_is_of_what_no_other_file_has(given: Path) -> None:
    content = json.loads((given / "certificate.json").read_text())
    content["program"] = "tracekit 9.9"
    assert forged(given, content, signs=False) == ["checksum: it is that of another certificate"]


def test_edited_files_are_found(given: Path) -> None:
    content = json.loads((given / "certificate.json").read_text())
    table, plan, about = (given / n for n in ("completions.parquet", "plan.bin", "summary.json"))
    # WHEN requests are made punctual
    rows = pq.read_table(table)
    kept = table.read_bytes()
    pq.write_table(rows.set_column(2, rows.schema.field(2), rows["intended_ns"]), table)
    found = forged(given, content, signs=True)
    assert any(line.startswith("files.completions.parquet") for line in found)
    # THEN the program's own counts tell, too
    assert any("ns by the program," in line for line in found)
    table.write_bytes(kept)
    # WHEN another plan of the same requests stands there
    at_ns = plan.read_bytes()
    plan.write_bytes(at_ns[:240] + (5).to_bytes(8, "little") + at_ns[248:])
    found = forged(given, content, signs=True)
    assert any(line.startswith("files.plan.bin") for line in found)
    assert "result.doubts[0]: nothing in the certificate" in "\n".join(found)
    plan.write_bytes(at_ns)
    # WHEN the summary has no run
    store.write_json(about, {"name": "latest", "outcome": "finished"})
    refused(invoke("verify-certificate", given), "plan is missing", error=InputError)
    store.write_json(given / "certificate.json", {**content, "schema": 2})
    refused(invoke("verify-certificate", given), "no certificate of this version", error=InputError)
    (given / "certificate.json").unlink()
    refused(invoke("verify-certificate", given), "certificate.json", error=InputError)


def test_another_trace_around_it_is_found(tmp_path: Path) -> None:
    folder = mixed(tmp_path / "trace")
    assert replay(folder, "max=100s").exit_code == 0
    info = json.loads((folder.path / "trace.json").read_text())
    info["source"]["files"][0]["sha256"] = "cd" * 32
    store.write_json(folder.path / "trace.json", info)
    refused(invoke("verify-certificate", place(folder)), "in trace.json", error=InputError)


def test_a_summary_without_a_certificate_is_as_before(tmp_path: Path) -> None:
    folder = steady(tmp_path / "trace", 5)
    assert invoke("replay", folder.path, "--engine", "null").exit_code == 0
    content = json.loads((place(folder) / "summary.json").read_text())
    assert "certificate" not in content
    assert not summary_of(content, tmp_path).certificate
    assert not (place(folder) / "certificate.json").exists()


@kernel_test
@pytest.mark.parametrize("level", ["queued", "issued"])
def test_the_kernels_times_are_certified(tmp_path: Path, level: str) -> None:
    # GIVEN a replay that the kernel's tracer watches
    rows = [
        {"queue_ns": n * MS // 4, "issue_ns": n * MS // 4, "complete_ns": (n + 1) * MS // 4,
         "sector": 64 * n, "operation": ("read", "write")[n % 2]}
        for n in range(400)
    ]  # fmt: skip
    folder = trace(tmp_path / "trace", rows)
    with loop(image(tmp_path / "image", mib=64), "--direct-io=on") as disk:
        words = ("--observe", "--level", level, "--target", str(disk), "--write-to", token_of(disk))
        done = replay(
            folder, "p50=1s,p99=1s,order=100%,merged=0,split=0", *words, engine="io_uring"
        )
    assert done.exit_code == 0, done.output
    content, table = certificate(folder), pq.read_table(place(folder) / "observed.parquet")
    assert (content["result"]["level"], content["result"]["measured_at"]) == (level, "kernel")
    # THEN the errors are those of the kernel's times against the plan's
    seen = table.sort_by("request_id").to_pydict()
    column = "queue_ns" if level == "queued" else "issue_ns"
    errors = np.sort(abs(np.array(seen[column]) - np.arange(400) * MS // 4))
    found = measured(content)
    assert found["p50"]["observed"] == errors[199]
    assert found["p99"]["observed"] == errors[395]
    changes = sum(
        seen[column][n] < max(seen[column][:n], default=-math.inf) for n in range(len(errors))
    )
    assert found["order"]["observed"] == pytest.approx(changes / 400)
    assert "observed.parquet" in content["files"]
    assert invoke("verify-certificate", place(folder)).exit_code == 0
    # AND another time of the kernel is found
    queue = [one + 1_000_000 for one in table[column].to_pylist()]
    number = table.schema.get_field_index(column)
    pq.write_table(
        table.set_column(number, table.schema.field(number), pa.array(queue, pa.int64())),
        place(folder) / "observed.parquet",
    )
    lines = str(invoke("verify-certificate", place(folder)).exception)
    assert "files.observed.parquet" in lines
    assert "result.measures[0].observed" in lines
