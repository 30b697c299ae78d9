"""`tracekit verify-placement`: predicted against measured."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats
from typer.testing import Result

from tests.command_line import invoke, refused
from tests.replay.program import stop_in_the_run
from tests.simulate.placement_models import (
    Request,
    hot_and_journal,
    model,
    placed_blocks,
    write_trace,
)
from tests.traces import json_of
from tracekit.devices import Profile, load_profiles
from tracekit.errors import BudgetError, InputError, PartialError, TracekitError, UnclearError
from tracekit.model.recommend import RecommendOptions as Recommend
from tracekit.model.recommend import check_answer, recommend
from tracekit.replay.summary import Emulation
from tracekit.replay.verdict import Expected, Tolerances, error_of, gain_of, judge, late, verdict_of
from tracekit.replay.verify_words import says
from tracekit.replay.windows import choose_windows, only_windows, requests_for
from tracekit.report.inputs import Inputs
from tracekit.report.section import Section
from tracekit.report.sections.placement import bars, verification
from tracekit.store import TraceFolder
from tracekit.tables import VERIFICATION

MS = 1_000_000
COUNT = 300
BUSY = ("--tolerance", "1", "--time-tolerance", "100")


def requests() -> list[Request]:
    return hot_and_journal(COUNT, 80_000)


@pytest.fixture
def folder(tmp_path: Path) -> TraceFolder:
    path = write_trace(
        tmp_path / "trace", requests(), counts={"requests": COUNT}, source={"files": []}
    )
    made = TraceFolder(path)
    recommend(made, Recommend(base="ssd-nvme", nvm="dax-pcm"))
    return made


def verify(folder: TraceFolder, *arguments: str) -> Result:
    return invoke("verify-placement", folder.path, *arguments)


def ends_with_a_verdict(done: Result) -> bool:
    """Say whether it came to its end; the replays of a machine under load may miss the model."""
    return done.exit_code == 0 or isinstance(done.exception, BudgetError | UnclearError)


def result_of(folder: TraceFolder) -> dict[str, Any]:
    return json_of(folder.path / "verification.json")


def brute_force_ns(on_nvm: set[Any], profiles: tuple[Profile, Profile]) -> float:
    return model(requests(), on_nvm, profiles).service / 1000


def test_the_replay_takes_what_the_model_says(folder: TraceFolder) -> None:
    # (a busy machine makes emulated devices late, so wide limits, and more than one chance)
    for _ in range(3):
        done = verify(folder, "--repeat", "10", *BUSY)
        if done.exit_code == 0:
            break
    # THEN the prediction is that of an explicit sum, and it held
    assert done.exit_code == 0, done.output
    assert "The prediction held" in done.stdout
    told = result_of(folder)
    moved = placed_blocks(requests(), told["answer"])
    assert moved
    known = load_profiles()
    profiles = (known["ssd-nvme"], known["dax-pcm"])
    assert told["predicted"]["base_ns"] == pytest.approx(brute_force_ns(set(), profiles), abs=1)
    assert told["predicted"]["placed_ns"] == pytest.approx(brute_force_ns(moved, profiles), abs=1)
    assert told["requests"] == told["trace_requests"] == COUNT
    # and the replays were never faster than their devices
    assert told["measured"]["base_ns"] >= told["predicted"]["base_ns"]
    assert told["measured"]["placed_ns"] >= 0.99 * told["predicted"]["placed_ns"]
    assert abs(told["gain_error_ratio"]) <= 1


@pytest.mark.parametrize(
    ("base", "queueing"),
    [("hdd-7200-seek", "serial"), ("hdd-7200-seek", "open"), ("ssd-nvme", "open")],
)
def test_what_depends_on_order_is_simulated(folder: TraceFolder, base: str, queueing: str) -> None:
    recommend(folder, Recommend(base=base, nvm="dax-pcm", queueing=queueing))
    done = verify(folder, "--repeat", "1", "--duration", "100s", *BUSY)
    # THEN the prediction is that of the recommendation, which tests/simulate prove
    assert ends_with_a_verdict(done)
    told = result_of(folder)
    answer = told["answer"]
    assert told["queueing"] == queueing
    assert told["predicted"]["base_ns"] == pytest.approx(answer["base_elapsed_ns"], abs=1)
    assert told["predicted"]["placed_ns"] == pytest.approx(answer["elapsed_ns"], abs=1)
    assert told["measured"]["base_ns"] >= 0.999 * told["predicted"]["base_ns"]
    is_open = queueing == "open"
    assert ("mean response" in done.stdout) == is_open
    section = verification(Inputs(folder))
    assert isinstance(section, Section)
    title = section.parts["figure"].title
    assert title.startswith("Mean response" if is_open else "Elapsed")


def test_heads_of_several_devices_are_apart(tmp_path: Path) -> None:
    found = [replace(one, device="sdb" if one.role == "fs" else "sda") for one in requests()]
    info = {"counts": {"requests": COUNT}, "source": {"files": []}}
    devices = [{"device": name} for name in ("sda", "sdb")]
    path = write_trace(tmp_path / "trace", found, devices=devices, **info)
    made = TraceFolder(path)
    recommend(made, Recommend(base="hdd-7200-seek", nvm="dax-pcm", capacities_bytes=(44 << 12,)))
    assert ends_with_a_verdict(verify(made, "--repeat", "1", "--duration", "1s", *BUSY))
    # THEN each has an emulated disk, and all of them take what the model says, NVM included
    for name, key in (("base", "base_ns"), ("placement", "placed_ns")):
        summary = json_of(path / "replays" / f"verify-{name}" / "summary.json")
        emulated = summary["emulation"]["devices"]
        assert len(emulated) >= 2
        took = sum(one["modelled_sum_ns"] for one in emulated)
        assert took == pytest.approx(result_of(made)["predicted"][key], rel=1e-3)
    # AND real devices have to be as many
    files = ("--target", f"{tmp_path}/base", "--target", f"nvm={tmp_path}/nvm")
    refused(verify(made, *files), "sda and sdb would share a target")


def test_the_replays_and_their_table_are_kept(folder: TraceFolder) -> None:
    assert ends_with_a_verdict(verify(folder, "--repeat", "2", *BUSY))
    table = pq.read_table(folder.path / "verification.parquet")
    assert table.schema.names == VERIFICATION.names
    assert table["devices"].to_pylist() == ["base", "placement", "runner-up"] * 2
    for name in ("verify-base", "verify-placement", "verify-runner-up"):
        place = folder.path / "replays" / name
        assert pq.read_table(place / "completions.parquet").num_rows >= COUNT
    assert sorted(path.name for path in folder.path.parent.iterdir()) == ["trace"]
    # again: what was kept is replaced
    assert ends_with_a_verdict(verify(folder, "--repeat", "1", *BUSY))


def test_windows_of_the_whole_trace_are_replayed(folder: TraceFolder) -> None:
    advice = json_of(folder.path / "recommendation.json")
    base_ns = advice["answer"]["base_elapsed_ns"]
    done = verify(folder, "--duration", f"{base_ns / 2e9}s", "--repeat", "3", *BUSY)
    assert ends_with_a_verdict(done)
    told = result_of(folder)
    assert (told["requests"], told["windows"]) == (COUNT // 2, 3)
    assert "150 of 300 requests, in 3 windows," in done.stdout
    assert told["predicted"]["base_ns"] < base_ns
    # and what was published is what the gain is compared with, the runner-up beside it
    assert told["published_ratio"] == advice["answer"]["gain_ratio"]
    assert told["gain_error_ratio"] == pytest.approx(
        told["measured"]["gain_ratio"] - told["published_ratio"]
    )
    rival = told["runner_up"]
    assert rival["placement"] == advice["answer"]["runner_up"]
    assert rival["predicted_ns"] >= told["predicted"]["placed_ns"]
    assert rival["measured_ns"] >= 0.99 * rival["predicted_ns"]
    assert sum(told["predicted"]["role_ns"].values()) == pytest.approx(
        told["predicted"]["base_ns"], abs=2
    )


@pytest.mark.parametrize(
    ("total", "count", "windows"),
    [(300, 300, 1), (300, 900, 1), (1000, 120, 2), (100_000, 1000, 8), (101, 100, 2), (3, 1, 1)],
)
def test_windows_are_one_of_each_part(total: int, count: int, windows: int) -> None:
    found = choose_windows(total, count)
    assert len(found) == windows
    assert sum(map(len, found)) == min(total, count)
    for number, window in enumerate(found):
        assert number * total // windows <= window.start < window.stop
        assert window.stop <= (number + 1) * total // windows
    assert found == choose_windows(total, count)


def test_times_between_windows_are_left_out(folder: TraceFolder) -> None:
    windows = [range(10, 20), range(100, 130), range(299, 300)]
    whole = pq.read_table(folder.file("requests.parquet")).to_pylist()
    with only_windows(folder, windows) as part:
        found = pq.read_table(part.file("requests.parquet")).to_pylist()
    chosen = [number for window in windows for number in window]
    assert [row["request_id"] for row in found] == chosen
    # THEN each came as long after the one before it as in the trace, and keeps its own times
    for before, row, number in zip(found, found[1:], chosen[1:], strict=False):
        gap = whole[number]["queue_ns"] - whole[number - 1]["queue_ns"]
        assert row["queue_ns"] - before["queue_ns"] == gap
        for name in ("issue_ns", "complete_ns"):
            assert row[name] is whole[number][name] is None or (
                row[name] - row["queue_ns"] == whole[number][name] - whole[number]["queue_ns"]
            )


def test_a_late_emulation_gives_no_verdict(folder: TraceFolder, tmp_path: Path) -> None:
    # GIVEN a base whose replay takes a second, and loses the processor for another one
    recommend(folder, Recommend(base="hdd-7200-seek", nvm="dax-pcm"))
    stop_in_the_run(tmp_path, 1.0)
    done = verify(folder, "--duration", "1s", "--repeat", "1")
    # THEN nobody can tell, and the first line says why
    assert isinstance(done.exception, UnclearError)
    first = done.stdout.splitlines()[0]
    assert first.startswith("Cannot tell whether the prediction holds, since the emulation was too")
    assert "chrt -f 10" in first
    told = result_of(folder)
    assert (told["verdict"], told["is_held"]) == ("cannot tell", None)
    assert told["reason"] in first
    kept = json_of(folder.path / "replays" / "verify-base" / "summary.json")
    assert "emulation_late" in [warning["code"] for warning in kept["warnings"]]


def test_a_prediction_that_fails_has_an_exit_code(folder: TraceFolder, tmp_path: Path) -> None:
    # GIVEN files in place of a disk, and of PCM that holds all but a block: both are about as fast
    recommend(folder, Recommend(base="hdd-7200", nvm="dax-pcm", capacities_bytes=(46 << 12,)))
    targets = ("--target", str(tmp_path / "base.img"), "--target", f"nvm={tmp_path / 'nvm.img'}")
    done = verify(folder, *targets, "--tolerance", "0", "--repeat", "8", "--engine", "threads")
    assert isinstance(done.exception, BudgetError)
    assert "The prediction did not hold" in done.stdout
    assert "emulated" not in done.stdout
    assert result_of(folder)["is_held"] is False


def test_one_repeat_cannot_tell(folder: TraceFolder, tmp_path: Path) -> None:
    targets = ("--target", str(tmp_path / "base.img"), "--target", f"nvm={tmp_path / 'nvm.img'}")
    done = verify(folder, *targets, "--repeat", "1", *BUSY)
    assert isinstance(done.exception, UnclearError)
    assert "Cannot tell whether the prediction holds, since one repeat has no spread" in done.stdout
    told = result_of(folder)
    assert (told["verdict"], told["is_held"]) == ("cannot tell", None)
    assert told["measured"]["gain_confident_low_ratio"] is None


def runs_of(*gains: float) -> list[tuple[float, float]]:
    return [(1e9, 1e9 * (1 - gain)) for gain in gains]


@pytest.mark.parametrize(
    ("gains", "predicted", "tolerance", "expected"),
    [
        # what a review saw: the prediction is in the spread of the repeats
        ((0.353, 0.402, 0.481), 0.357, 0.05, "cannot tell"),
        ((0.353, 0.402, 0.481), 0.357, 0.2, "held"),
        ((0.353, 0.402, 0.481), 0.957, 0.2, "did not hold"),
        ((0.299, 0.301, 0.300, 0.302), 0.31, 0.05, "held"),
        ((0.299, 0.301, 0.300, 0.302), 0.36, 0.05, "did not hold"),
        ((0.299, 0.301, 0.300, 0.302), 0.26, 0.05, "held"),
        ((0.299, 0.301, 0.300, 0.302), 0.24, 0.05, "did not hold"),
        ((0.299, 0.301, 0.300, 0.302), 0.95, 0.05, "did not hold"),
        ((0.3,), 0.3, 0.05, "cannot tell"),
        ((0.3, 0.3), 0.3, 0.0001, "held"),
        ((-0.2, -0.21, -0.19), 0.2, 0.05, "did not hold"),
    ],
)
def test_the_verdict_is_of_the_interval_of_the_gain(
    gains: tuple[float, ...], predicted: float, tolerance: float, expected: str
) -> None:
    found = judge(runs_of(*gains), predicted_ratio=predicted, tolerance_ratio=tolerance)
    assert found == expected


NS = 10**9
STEADY = [(1.00, 0.70), (1.01, 0.71), (0.99, 0.69), (1.00, 0.70)]
WILD = [(1.00, 0.70), (1.40, 0.98), (0.60, 0.42), (1.00, 0.70)]


@pytest.mark.parametrize(
    ("runs", "expected", "verdict", "reason"),
    [
        (STEADY, (1.0, 0.7, 0.3), "held", None),
        # what a review saw: the gain is right, and the times are five times what was predicted
        (STEADY, (0.2, 0.14, 0.3), "did not hold", "the time on the base device is 400% off"),
        (STEADY, (1.0, 0.5, 0.5), "did not hold", "the time as placed is 40% off"),
        (STEADY, (1.0, 0.7, 0.45), "cannot tell", "30.0% of the requests that were replayed and"),
        (STEADY, (1.0, 0.6, 0.4), "did not hold", "the time as placed is 17% off"),
        (WILD, (1.0, 0.7, 0.3), "cannot tell", "the time on the base device is 0% off (0% to 52%)"),
        (STEADY[:1], (1.0, 0.7, 0.3), "cannot tell", "one repeat has no spread"),
    ],
)
def test_a_verdict_is_of_the_times_too(
    runs: list[tuple[float, float]],
    expected: tuple[float, float, float],
    verdict: str,
    reason: str | None,
) -> None:
    base, placed, published = expected
    found = verdict_of(
        [(base * NS, placed * NS) for base, placed in runs],
        Expected(round(base * NS), round(placed * NS), published, {}),
        tolerances=Tolerances(0.05, 0.1),
        emulations=[(None, None)] * len(runs),
    )
    assert found.name == verdict
    assert reason is None or reason in (found.reason or "")


def test_roles_do_not_make_up_for_each_other() -> None:
    # GIVEN a time that is right, of which one role took 300 more and the other 300 less
    told = error_of(
        [1000], 1000, roles=[{"fs": 800, "swap": 200}], role_ns={"fs": 500, "swap": 500}
    )
    assert told == [0.6]
    assert error_of([1100], 1000) == [0.1]
    # AND what one repeat has too much and another too little is their spread, not the error
    told = error_of([900, 1300], 1000)
    assert told == [-0.1, 0.3]
    assert error_of([900, 700], 1000) == [0.1, 0.3]


def test_the_interval_is_that_of_scipy_for_the_logarithms() -> None:
    gains = np.array([0.353, 0.402, 0.481])
    known = stats.ttest_1samp(np.log(1 - gains), 0).confidence_interval(0.95)
    found = gain_of(runs_of(*gains.tolist()))
    assert found is not None
    assert found == pytest.approx((1 - np.exp(known.high), 1 - np.exp(known.low)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gain_ratio": 0.95}, "gain_ratio is 0.95, of the trace it is 0."),
        ({"base_elapsed_ns": 5}, "base_elapsed_ns is 5, of the trace it is"),
        ({"fs_bytes": 0, "journal_bytes": 12 * 4096}, "fs_bytes is 0"),
        ({"placement": "swap"}, "placement is swap, of the trace it is"),
    ],
)
def test_an_edited_recommendation_is_found(
    folder: TraceFolder, changes: dict[str, Any], message: str
) -> None:
    file = folder.path / "recommendation.json"
    advice = json_of(file)
    file.write_text(json.dumps({**advice, "answer": {**advice["answer"], **changes}}))
    refused(verify(folder), "does not fit the trace", message, error=InputError)
    assert not (folder.path / "verification.json").exists()


@pytest.mark.parametrize(
    "options",
    [
        Recommend(base="hdd-7200-seek", nvm="dax-pcm", coverage="start"),
        Recommend(base="ssd-nvme", nvm="dax-pcm", queueing="open", max_capacity_bytes=9 << 12),
        Recommend(base="hdd-7200", level="queued", capacities_bytes=(7 << 12, 90 << 12, 3 << 20)),
        Recommend(max_capacity_bytes=1 << 30, capacities_bytes=(2 << 30, 5 << 12)),
    ],
)
def test_every_answer_of_a_recommendation_is_found_again(
    folder: TraceFolder, options: Recommend
) -> None:
    advice = recommend(folder, options)
    for answer in (advice.answer, *advice.answers):
        check_answer(folder, advice, answer=answer)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--duration", "0s"), "--duration 0: not a length of time"),
        (("--repeat", "0"), "--repeat 0: not from 1"),
        (("--tolerance", "2"), "--tolerance 2: not a share"),
        (("--time-tolerance", "-1"), "--time-tolerance -1: not a share"),
        (("--engine", "io_uring"), "--engine io_uring needs a --target"),
        (("--target", "nvm=/n"), "for the base and one for nvm: nvm=/n alone is not enough"),
        (("--target", "/b"), "for the base and one for nvm: /b alone is not enough"),
        (("--placement", "3KiB"), "there is no answer for this capacity"),
    ],
)
def test_refusals(folder: TraceFolder, arguments: tuple[str, ...], message: str) -> None:
    refused(verify(folder, *arguments), message)
    assert not (folder.path / "verification.json").exists()
    assert [path.name for path in folder.path.parent.iterdir()] == ["trace"]


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("device", "sdz", "row 1: there is no device 'sdz' in the trace, which has sda"),
        ("blocks", 0, "row 1: 0 is no number of blocks from 1 up"),
        ("first_block", -9, "row 1: -9 is no block from 0 up"),
        ("first_block", 1 << 40, "does not fit the trace: "),
    ],
)
def test_a_wrong_list_of_blocks_is_named(
    folder: TraceFolder, column: str, value: Any, message: str
) -> None:
    file = folder.table("simulations/best_placement")
    table = pq.read_table(file)
    rows = table.to_pylist()
    rows[0][column] = value
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    refused(verify(folder, "--placement", "best"), str(file), message, error=InputError)
    assert not (folder.path / "verification.json").exists()


def test_writes_that_are_not_confirmed_prove_nothing(folder: TraceFolder, tmp_path: Path) -> None:
    target = tmp_path / "base.img"
    target.write_bytes(bytes(64 << 20))
    done = verify(folder, "--target", str(target), "--target", f"nvm={tmp_path / 'nvm.img'}")
    refused(done, "proves nothing")
    assert not any(target.read_bytes())


def test_an_interruption_is_named(folder: TraceFolder) -> None:
    # GIVEN replays that take seconds, WHEN a signal comes in the first
    recommend(folder, Recommend(base="hdd-7200", nvm="dax-pcm"))
    begun = subprocess.Popen(
        [sys.executable, "-m", "tracekit", "verify-placement", str(folder.path)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while begun.poll() is None and not [*folder.path.parent.rglob("*completions*part*")]:
        time.sleep(0.01)
    begun.send_signal(signal.SIGINT)
    _, told = begun.communicate(timeout=20)
    # THEN it says so, and not that targets are to be confirmed
    assert begun.returncode == PartialError.exit_code
    assert "interrupted in the replay verify-base: nothing can be judged" in told
    assert not (folder.path / "verification.json").exists()


def test_a_changed_profile_and_no_recommendation(folder: TraceFolder) -> None:
    file = folder.path / "recommendation.json"
    advice = json_of(file)
    advice["profiles"][0]["read_latency_us"] += 1
    file.write_text(json.dumps(advice))
    refused(verify(folder), "has changed since the recommendation was made", error=InputError)
    file.unlink()
    refused(verify(folder), "has no recommendation yet", error=TracekitError)


@pytest.mark.parametrize(
    ("total", "elapsed_ns", "seconds", "expected"),
    [
        (1000, 10**9, 0.5, 500),
        (1000, 10**9, 5.0, 1000),
        (1000, 0, 1.0, 1000),
        (1000, 10**12, 0.001, 100),
        (30, 10**12, 0.001, 30),
    ],
)
def test_requests_that_fit(total: int, elapsed_ns: int, seconds: float, expected: int) -> None:
    assert requests_for(total, elapsed_ns, seconds=seconds) == expected


def test_the_report_shows_what_was_found(folder: TraceFolder) -> None:
    assert verification(Inputs(folder)) is None
    assert ends_with_a_verdict(verify(folder, "--repeat", "1", *BUSY))
    section = verification(Inputs(TraceFolder(folder.path)))
    assert isinstance(section, Section)
    assert section.parts["headline"] == result_of(folder)["headline"]
    drawn = bars(section.parts["figure"].evidence.table)
    assert drawn["kind"].tolist() == [
        f"{what}, {how}"
        for what in ("base alone", "as placed", "runner-up")
        for how in ("predicted", "replayed")
    ]
    assert drawn["elapsed_ns"].tolist()[::2] == [
        result_of(folder)["predicted"][key] for key in ("base_ns", "placed_ns", "runner_up_ns")
    ]


RESULT: dict[str, Any] = {
    "predicted": {
        "base_ns": 100_000_000,
        "placed_ns": 80_000_000,
        "gain_ratio": 0.2,
        "role_ns": {"fs": 60_000_000, "journal": 40_000_000},
    },
    "measured": {
        "base_ns": 50_000_000,
        "placed_ns": 60_000_000,
        "gain_ratio": -0.2,
        "gain_low_ratio": -0.25,
        "gain_high_ratio": 0.05,
        "role_ns": {"fs": 30_000_000, "journal": 20_000_000},
        "repeats": 3,
    },
    "base_error_ratio": -0.5,
    "placed_error_ratio": -0.25,
    "gain_error_ratio": -0.4,
    "published_ratio": 0.2,
    "tolerance_ratio": 0.05,
    "time_tolerance_ratio": 0.1,
    "reason": None,
    "runner_up": None,
    "is_held": False,
    "answer": {"capacity_bytes": 1 << 20},
    "requests": 10,
    "trace_requests": 10,
    "engine": "auto",
    "nvm_profile": "dax-pcm",
    "cut_requests": 0,
}


@pytest.mark.parametrize(
    ("ratio", "share"),
    [(4.3, "up to 430% of what"), (0.002, "less than 1% on average, more at p99,")],
)
def test_how_late_an_emulation_was_is_said(ratio: float, share: str) -> None:
    # GIVEN two replays, one of which was beyond the budget on average, or at its p99 alone
    base, placed = (
        Emulation(is_within_budget=is_within, lateness_ratio=ratio, budget={}, devices=[])
        for is_within in (True, False)
    )
    assert f"too late in 1 of 2 replays, by {share}" in str(late([(base, placed)]))


LATE = "the emulation was too late in 1 of 6 replays, by up to 430% of what the devices take"


@pytest.mark.parametrize(
    ("is_held", "opening", "note"),
    [
        (None, f"Cannot tell whether the prediction holds, since {LATE}", ""),
        (True, "The prediction held: with", f"But {LATE}; without that the verdict is the same."),
    ],
)
def test_a_late_emulation_is_said(is_held: bool | None, opening: str, note: str) -> None:
    said = says({**RESULT, "is_held": is_held, "emulation_late": LATE})
    assert said[0].startswith(opening)
    assert (note in said) == bool(note)


def test_what_measurements_predict_is_said_of_what_was_replayed() -> None:
    # GIVEN predictions by two measurements of the devices, of all requests and of some windows
    repeats = [{"base_ns": 100, "placed_ns": placed} for placed in (90, 80)]
    predicted = {**RESULT["predicted"], "repeats": repeats}
    by = "10.0% less to 20.0% less by each of 2 measurements of the devices"
    whole = says({**RESULT, "predicted": predicted})[0]
    assert f"published was 20.0% less ({by});" in whole
    part = says({**RESULT, "predicted": predicted, "trace_requests": 20, "windows": 2})[0]
    assert "published was 20.0% less; " in part
    assert f"(the model says 20.0% less, {by}, for them)" in part


def test_a_placement_that_costs_time_is_reported_as_such() -> None:
    assert says(RESULT) == [
        "The prediction did not hold: with 1 MiB of dax-pcm the replay of all 10 requests took"
        " 20.0% more time (25.0% more to 5.0% less in 3 repeats), published was 20.0% less;"
        " 40.0 points apart, 5.0 points are allowed.",
        "On the base device alone: 50 ms, predicted 100 ms (-50.0%); as placed: 60 ms, predicted"
        " 80 ms (-25.0%); 10% are allowed. By role: file system -50.0%, journal -50.0%.",
    ]
