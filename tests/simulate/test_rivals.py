"""`tracekit simulate rivals`: against the models on a real trace, and against the placement's."""

import shutil
from pathlib import Path

import pytest

from tests.command_line import invoke, refused, succeed
from tests.simulate.rival_models import MODELS, Prices, Request, Setup
from tests.simulate.traces import make_trace
from tests.traces import json_of, rows_of
from tracekit._native import placement
from tracekit.classify import ClassifyOptions, classify
from tracekit.devices import base_cost, device_cost
from tracekit.model import cache_rivals
from tracekit.model.answer import charged_trace, read_recommendation
from tracekit.model.cache_rivals import KINDS, Kind, compete, headline
from tracekit.model.placement import ChargedTrace, to_ns
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.readers.blktrace import parse
from tracekit.store import TraceFolder

SAMPLE = Path(__file__).resolve().parents[2] / "sample-traces" / "sysbench"
CAPACITY = 4 << 20


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> TraceFolder:
    """Parse and classify a real trace, and recommend with each request as queued."""
    path = tmp_path_factory.mktemp("sysbench") / "trace"
    folder, _ = parse([SAMPLE], path)
    if not (path / "layout.json").exists():
        shutil.copy(SAMPLE / "layout.json", path)
    classify(folder, ClassifyOptions())
    recommend(folder, RecommendOptions(level="queued", capacities_bytes=(CAPACITY,)))
    return TraceFolder(path)


def prices_of(trace: ChargedTrace) -> Prices:
    base, nvm = base_cost(trace.devices.base), device_cost(trace.devices.nvm)
    return Prices(
        latency=(base.latency_ps, nvm.latency_ps),
        sequential=(base.sequential_ps, nvm.sequential_ps),
        sector=(base.sector_ps, nvm.sector_ps),
        fua=(base.fua_ps, nvm.fua_ps),
        flush=trace.devices.flush_ps,
    )


def requests_of(trace: ChargedTrace) -> list[Request]:
    """Return transfers, and flushes without sectors, a preflush before its transfer."""
    found, now = [], 0
    for rows in trace.rows():
        columns = (rows.queue_ns, rows.sector, rows.length_bytes, rows.action, rows.role)
        flags = (rows.is_fua, rows.is_preflush)
        for at, sector, length, action, role, fua, preflush in zip(
            *(column.tolist() for column in (*columns, *flags)), strict=True
        ):
            now = max(now, at)
            if action == placement.FLUSH or preflush:
                found.append(Request(0, 0, is_write=False, now_ns=now))
            if action in (placement.READ, placement.WRITE) and length:
                is_write = action == placement.WRITE
                # Of the model's flags both make a write synchronous, which a preflush does, too.
                journal = role == 1 or bool(preflush)
                found.append(Request(sector, -(-length // 512), is_write, at, bool(fua), journal))
    return found


CHOSEN = [one for one in KINDS if (one.kind, one.mode) != ("bcache", "back")]


@pytest.mark.parametrize("one", CHOSEN, ids=lambda one: f"{one.name}-{one.mode}")
def test_a_real_trace_is_as_in_the_model(
    one: Kind, sample: TraceFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = charged_trace(sample, read_recommendation(sample))
    monkeypatch.setattr(cache_rivals, "KINDS", (one,))
    ((row,), _) = compete(trace, CAPACITY)
    size = one.block_bytes // 512
    asked = requests_of(trace)
    blocks = {
        block
        for request in asked
        for block in range(
            request.sector // size, (request.sector + request.sectors - 1) // size + 1
        )
    }
    setup = Setup(
        one.kind, one.mode, size, CAPACITY // one.block_bytes, one.bucket_blocks, one.high_percent,
        one.low_percent, one.cutoff_bytes // 512, one.stale_s * 10**9,
    )  # fmt: skip
    model = MODELS[one.kind](setup, prices_of(trace), len(blocks))
    for request in asked:
        model.serve(request)
    assert row.elapsed_ns == to_ns(model.counts["response_ps"])
    assert (row.background_base_ns, row.background_nvm_ns) == tuple(map(to_ns, model.behind))
    names = [name for name in model.counts if name != "response_ps"]
    assert {name: getattr(row, name) for name in names} == {
        name: model.counts[name] for name in names
    }


def test_a_cache_that_does_nothing_takes_what_the_base_takes(tmp_path: Path) -> None:
    # GIVEN reads and writes of which none is forced, so that a log has nothing to do
    asked = [("write" if at % 3 else "read", at * 7 % 90, 1 + at % 9) for at in range(300)]
    folder = make_trace(tmp_path / "t", asked)
    advice = recommend(folder, RecommendOptions(level="queued"))
    rows, _ = compete(charged_trace(folder, advice), 1 << 20)
    log = next(row for row in rows if row.rival == "ZFS log")
    # THEN the time is that of the placement model, head and all
    assert log.elapsed_ns == advice.answer.base_elapsed_ns
    assert (log.fills, log.background_base_ns) == (0, 0)


def test_the_command_names_what_beats_the_placement(sample: TraceFolder) -> None:
    done = succeed("simulate", "rivals", sample.path)
    answer = json_of(sample.path / "simulations" / "cache_rivals.json")
    rows = rows_of(sample.table("simulations/cache_rivals"))
    assert [(row["rival"], row["mode"]) for row in rows] == [(one.name, one.mode) for one in KINDS]
    assert done.stdout.splitlines() == answer["headline"]
    sure = min(rows, key=lambda row: row["elapsed_ns"] + row["background_base_ns"])
    beats = sure["elapsed_ns"] + sure["background_base_ns"] < answer["placement_elapsed_ns"]
    assert (f"{sure['rival']} (write-{sure['mode']}) beats" in done.stdout) == beats
    assert any("background time" in line for line in answer["assumptions"])


def test_what_a_cache_is_too_small_for_is_named(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", at % 40, 1) for at in range(60)])
    refused(invoke("simulate", "rivals", folder.path), "recommendation", error=Exception)
    recommend(folder, RecommendOptions(capacities_bytes=(64 << 10,)))
    done = succeed("simulate", "rivals", folder.path)
    assert done.stderr == "caches left out, the capacity is too small: dm-cache, bcache\n"
    recommend(folder, RecommendOptions(queueing="open"))
    refused(invoke("simulate", "rivals", folder.path), "queueing")


def test_the_headline_tells_sure_from_quick(tmp_path: Path) -> None:
    folder = make_trace(tmp_path / "t", [("read", at % 40, 1) for at in range(60)])
    answer = recommend(folder, RecommendOptions()).answer
    rows, _ = compete(charged_trace(folder, read_recommendation(folder)), 1 << 20)
    for row in rows:
        row.elapsed_ns, row.background_base_ns = 10 * answer.elapsed_ns, 0
    assert "no cache beats the placement" in headline(rows, answer)[0]
    rows[1].elapsed_ns, rows[1].background_base_ns = 1, answer.elapsed_ns
    (line,) = headline(rows, answer)
    assert line.startswith(f"{rows[1].title} is quickest if the base device is idle long enough")
    rows[2].elapsed_ns = answer.elapsed_ns - 1
    assert f"{rows[2].title} beats the placement" in headline(rows, answer)[0]
    assert len(headline(rows, answer)) == 2
    assert headline([], answer)[0].endswith("are too small for each of the caches.")
