"""A recommended placement as a plan: each sector of each request on the device that holds it."""

import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, refused, succeed
from tests.replay.trace import compiled
from tests.simulate.placement_models import Request, hottest_first, write_trace
from tracekit.errors import InputError, UsageError
from tracekit.model.block_orders import read_blocks
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.plans import Records
from tracekit.plans.block_plan import FLUSH, FUA, PREFLUSH, READ, WRITE
from tracekit.replay import placed
from tracekit.replay.compiler import PlanReport
from tracekit.replay.placed import place
from tracekit.store import TraceFolder

ROLES = ("fs", "journal", "swap")
SHARES = {"fs": 9, "journal": 4}


def mixed(seed: int, count: int = 400) -> list[Request]:
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        role = str(random.choice(ROLES))
        operation = str(random.choice(["read", "write", "write", "flush"]))
        is_flush = operation == "flush"
        sectors = 0 if is_flush else int(random.integers(1, 60))
        sector = 0 if is_flush else 400 * ROLES.index(role) + int(random.integers(0, 200))
        found.append(
            Request(
                role,
                sector,
                sectors,
                operation,
                is_fua=bool(random.random() < 0.1) and operation == "write",
                is_preflush=is_flush or bool(random.random() < 0.2),
                device=str(random.choice(["sda", "sdb"])),
                queue_ns=number * 1000,
            )
        )
    return found


def plan_of(folder: Path, shares: dict[str, int]) -> tuple[Records, PlanReport]:
    chosen = place(read_blocks(folder / "blocks.parquet"), "hottest", blocks=shares)
    return compiled(TraceFolder(folder), placed=chosen)


def on_nvm_of(requests: list[Request], shares: dict[str, int]) -> dict[str, list[Any]]:
    """Return the blocks of each role that are on NVM, as the model's own brute force has them."""
    return {role: sorted(hottest_first(requests, role)[: shares.get(role, 0)]) for role in ROLES}


def expected(requests: list[Request], shares: dict[str, int]) -> Iterator[tuple[Any, ...]]:
    """Yield (request, is NVM, sector, sectors, operation, flags) of each piece by its sectors."""
    moved = on_nvm_of(requests, shares)
    slots = {(role, block): n for n, (role, block) in enumerate(
        (role, block) for role in ROLES for block in moved[role])}  # fmt: skip
    everything = {role: len(hottest_first(requests, role)) for role in ROLES}
    shift = {"sda": 0, "sdb": None}
    for number, request in enumerate(requests):
        count = len(moved[request.role])
        devices = (
            [False] if not count else [True] if count == everything[request.role] else [False, True]
        )
        flags = request.is_preflush * PREFLUSH + request.is_fua * FUA
        if request.operation == "flush":
            yield from ((number, is_nvm, None, 0, FLUSH, flags) for is_nvm in devices)
            continue
        places = []
        for sector in range(request.sector, request.sector + request.sectors):
            slot = slots.get((request.role, (request.device, sector // 8)))
            places.append((slot is not None, sector if slot is None else slot * 8 + sector % 8))
        runs = [list(group) for _, group in groupby(places, key=lambda one: one[0])]
        on_nvm = [place for run in runs for place in run if place[0]]
        pieces = [run for run in runs if not run[0][0] or run[0] == on_nvm[0]]
        pieces = [on_nvm if run[0][0] else run for run in pieces]
        seen = {piece[0][0] for piece in pieces}
        if request.is_preflush:
            yield from ((number, n, None, 0, FLUSH, 0) for n in devices if n not in seen)
        flushed = {False, True} - {*devices}
        operation = READ if request.operation == "read" else WRITE
        for piece in pieces:
            is_nvm, sector = piece[0]
            own = flags & ~PREFLUSH if is_nvm in flushed else flags
            flushed.add(is_nvm)
            key = sector if is_nvm or shift[request.device] == 0 else None
            yield number, is_nvm, key, len(piece), operation, own
            assert [one[1] for one in piece] == list(range(sector, sector + len(piece)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shares", [SHARES, {"journal": 1 << 40}, {"fs": 1, "swap": 30}])
def test_each_sector_goes_where_the_placement_has_it(
    tmp_path: Path, seed: int, shares: dict[str, int]
) -> None:
    requests = mixed(seed)
    folder = write_trace(tmp_path / "t", requests)
    records, report = plan_of(folder, shares)
    labels = [target["label"] for target in report.targets]
    wanted = list(expected(requests, shares))
    assert len(records) == len(wanted)
    for record, (number, is_nvm, sector, sectors, operation, flags) in zip(
        records, wanted, strict=True
    ):
        assert record["request_id"] == number
        assert (labels[record["target"]] == "nvm") == is_nvm
        assert (record["length_sectors"], record["operation"]) == (sectors, operation)
        assert record["flags"] == flags
        if sector is not None:
            assert record["sector"] == sector
    # THEN no two blocks share a place on NVM
    on_nvm = sum(len(blocks) for blocks in on_nvm_of(requests, shares).values())
    needed = {target["label"]: target["needed_bytes"] for target in report.targets}
    assert needed["nvm"] <= on_nvm * 4096


def test_requests_are_cut_alike_in_small_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_trace(tmp_path / "t", mixed(1))
    whole, report = plan_of(folder, SHARES)
    monkeypatch.setattr(placed, "CHUNK_BLOCKS", 5)
    again, _ = plan_of(folder, SHARES)
    assert (again == whole).all()
    assert report.cut_requests > 20
    assert report.pieces >= 2 * report.cut_requests


def test_a_request_waits_for_the_last_piece_of_another(tmp_path: Path) -> None:
    # GIVEN a request in three pieces, of which the middle one is on NVM, and one that came later
    hot = [Request("fs", 8, 8, "read", queue_ns=n) for n in range(3)]
    wide = Request("fs", 0, 24, "write", queue_ns=10)
    later = Request("fs", 0, 8, "read", queue_ns=100)
    folder = write_trace(tmp_path / "t", [*hot, wide, later])
    _complete(folder, {3: 50})
    records, _ = plan_of(folder, {"fs": 1})
    assert records["request_id"].tolist() == [0, 1, 2, 3, 3, 3, 4]
    assert records["after"].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert records["think_ns"].tolist()[-1] == 50


def _complete(folder: Path, ends: dict[int, int]) -> None:
    table = pq.read_table(folder / "requests.parquet")
    column = pa.array([ends.get(n) for n in range(table.num_rows)], pa.int64())
    index = table.schema.names.index("complete_ns")
    table = table.set_column(index, table.schema.field(index), column)
    pq.write_table(table, folder / "requests.parquet")


def advice(folder: Path, **answer: Any) -> None:
    recommend(TraceFolder(folder), RecommendOptions())
    content = json.loads((folder / "recommendation.json").read_text())
    told = {"capacity_bytes": 40960, "fs_bytes": 0, "journal_bytes": 0, "swap_bytes": 0, **answer}
    content["answer"] |= told
    content["answers"] = [{**content["answer"], "capacity_bytes": 8192}]
    (folder / "recommendation.json").write_text(json.dumps(content))


def test_the_command_replays_the_answer(tmp_path: Path) -> None:
    folder = write_trace(tmp_path / "t", mixed(3))
    advice(folder, fs_bytes=36864, journal_bytes=16384)
    emulated = "--engine emulated --device ssd-nvme --device nvm=dax-pcm --pace fast"
    succeed("replay", folder, "--placement", "answer", *emulated.split())
    told = json.loads((folder / "replays/latest/summary.json").read_text())
    assert {target["label"] for target in told["targets"]} == {"nvm", "default"}
    assert told["placement"] == "answer"
    nvm = next(target for target in told["targets"] if target["label"] == "nvm")
    assert nvm["device"]["read_setup_ns"] < 10_000
    assert told["counts"]["done"] == told["compiled"]["requests"] > 400


@pytest.mark.parametrize(
    ("answer", "wanted", "message"),
    [
        ({"fs_bytes": 4096}, "16MiB", "there is no answer for this capacity"),
        ({"fs_bytes": 4096}, "much", "'much' is not a size"),
        ({}, "answer", "leave everything on the base device"),
        (None, "answer", "has no recommendation yet"),
    ],
)
def test_a_placement_that_is_none_is_refused(
    tmp_path: Path, answer: dict[str, Any] | None, wanted: str, message: str
) -> None:
    folder = write_trace(tmp_path / "t", mixed(3, 10))
    if answer is not None:
        advice(folder, **answer)
    done = invoke("replay", folder, "--placement", wanted, "--engine", "null")
    assert isinstance(done.exception, InputError | UsageError)
    assert message in str(done.exception)


def test_nvm_is_a_target_only_with_a_placement(tmp_path: Path) -> None:
    folder = write_trace(tmp_path / "t", mixed(3, 10))
    done = invoke("replay", folder, "--target", f"nvm={tmp_path / 'x'}")
    refused(done, "there is no role 'nvm'")
