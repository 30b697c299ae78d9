"""`tracekit prove`: both devices measured, the answer replayed on them, and the verdict."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from scipy import stats
from typer.testing import Result

from tests.command_line import invoke, refused
from tests.simulate.placement_models import Request, hot_and_journal, model, write_trace
from tests.traces import json_of, rows_of
from tracekit.device.fit import medians_of, middle_of, write_profile, write_tables
from tracekit.devices import DevicePair, Profile, load_profiles, mean_of
from tracekit.errors import BudgetError, InputError, UnclearError
from tracekit.machine_state import Use
from tracekit.model.recommend import RecommendOptions, recommend
from tracekit.prove import Proof, ProveOptions, Step, conclude, prove
from tracekit.replay.prediction import predict
from tracekit.replay.verdict import Expected, Tolerances, judge, verdict_of
from tracekit.replay.windows import halves
from tracekit.store import TraceFolder

MS = 1_000_000
COUNT = 150
TINY = ("--quick", "--scale", "0.001", "--rounds", "2", "--size", "4MiB", "--repeat", "2")
WIDE = ("--tolerance", "1", "--time-tolerance", "100")
OWN = """
[slow]
read_latency_us = 60
write_latency_us = 80
read_mib_s = 10000
write_mib_s = 8000
flush_us = 100
fua_us = 20
price_per_gb = 1
[fast]
read_latency_us = 10
write_latency_us = 15
read_mib_s = 30000
write_mib_s = 20000
flush_us = 5
fua_us = 1
price_per_gb = 1
"""


def requests() -> list[Request]:
    return hot_and_journal(COUNT, 800)


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "own.toml").write_text(OWN)
    return made(tmp_path / "trace")


def made(place: Path) -> Path:
    return write_trace(place, requests(), counts={"requests": COUNT}, source={"files": []})


def words(trace: Path, *more: str, base: str = "slow", nvm: str = "fast") -> list[str]:
    own = trace.parent / "own.toml"
    return [
        *("prove", str(trace), "--base", base, "--nvm", nvm, "--profiles", str(own)),
        *(*TINY, *more),
    ]


def ends_with_a_verdict(done: Result) -> bool:
    """Say whether it came to its end; emulated devices are late on a busy machine."""
    return done.exit_code == 0 or isinstance(done.exception, BudgetError | UnclearError)


def kill_in(step: str, trace: Path, file: Path) -> None:
    """Begin a round and kill it in a step."""
    begun = subprocess.Popen(
        [sys.executable, "-m", "tracekit", *words(trace, *WIDE)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while begun.poll() is None and not (file.exists() and json_of(file).get("running") == step):
        time.sleep(0.01)
    begun.kill()
    begun.wait()


PREDICTED = re.compile(r"predicted [\d.]+ \w+ \([\d.]+ \w+ to [\d.]+ \w+\) \(")
RATIO = r"[\d.]+% \w+"
BY_BOTH = rf"{RATIO} to {RATIO} by each of 2 measurements"
PUBLISHED = re.compile(rf"published was {RATIO}( \({BY_BOTH}|.*the model says {RATIO}, {BY_BOTH})")


@pytest.mark.slow
def test_a_killed_round_goes_on_and_ends_with_all_in_one_folder(trace: Path) -> None:
    # GIVEN a round that is killed in its second step
    file = trace / "proof" / "proof.json"
    kill_in("nvm 1", trace, file)
    assert [step["name"] for step in json_of(file)["steps"]] == ["base 1"]
    first = (file.parent / "base-1" / "device" / "device.json").stat().st_mtime_ns
    # WHEN the same is asked again
    done = invoke(*words(trace, *WIDE))
    # THEN it goes on, says so, and ends: a self-test, with a time for each side
    assert ends_with_a_verdict(done), done.output
    assert (file.parent / "base-1" / "device" / "device.json").stat().st_mtime_ns == first
    told = json_of(file)
    steps = ["base 1", "nvm 1", "nvm 2", "base 2", "recommend", "verify"]
    assert [step["name"] for step in told["steps"]] == steps
    assert told["killed"] == ["nvm 1"]
    assert "Killed or interrupted, and gone on with: 'nvm 1'." in done.stdout
    assert len(PREDICTED.findall(done.stdout)) == 2
    assert PUBLISHED.search(done.stdout)
    assert "very profiles that the model used" not in done.stdout
    assert "This was a self-test: both devices were emulated" in done.stdout
    # AND what was predicted is by what was measured, not by the profiles that are emulated
    advice = json_of(file.parent / "recommendation.json")
    assert [one["name"] for one in advice["profiles"]] == ["slow-measured", "fast-measured"]
    assert advice["gain_range"]["repeat"]["tried"] == 2
    verified = json_of(file.parent / "verification.json")
    assert len(verified["predicted"]["repeats"]) == 2
    assert verified["published_ratio"] == advice["answer"]["gain_ratio"]
    # AND no request on which a device was measured is among those that were compared
    done_ids = {row["request_id"] for row in rows_of(file.parent / COMPLETED)}
    measured, compared = ({number for part in half for number in part} for half in halves(COUNT))
    assert done_ids == compared
    assert [one["requests"] for one in mix_of(file.parent / "nvm-2")] == [8 * len(measured)]
    check_filled_once(file.parent)
    # AND the trace has nothing but the folder, which is a trace, too
    assert not (trace / "recommendation.json").exists()
    assert invoke("recommend", file.parent, "--base", "slow-measured", "--nvm", "fast-measured",
                  "--profiles", file.parent / "profiles.toml").exit_code == 0  # fmt: skip
    refused(invoke(*words(trace, *WIDE)), "holds a whole proof")
    check_changes(trace, told, advice)


COMPLETED = "replays/verify-base/completions.parquet"


def mix_of(folder: Path) -> list[dict[str, Any]]:
    """Return the row of the trace's requests of a measurement."""
    return [row for row in steps_of(folder) if row["kind"] == "trace" and row["operation"] == "all"]


def check_filled_once(folder: Path) -> None:
    """Check that only the first measurement of a target fills it and makes it steady."""
    first, second = ({row["kind"] for row in steps_of(folder / f"base-{n}")} for n in (1, 2))
    assert first - second == {"fill", "precondition"}


def steps_of(folder: Path) -> list[dict[str, Any]]:
    return rows_of(folder / "device" / "device_steps.parquet")


def check_changes(trace: Path, told: dict[str, Any], advice: dict[str, Any]) -> None:
    """Check that what somebody changed between the steps is named."""
    file = trace / "proof" / "proof.json"
    undone = {**told, "verdict": None, "steps": told["steps"][:-1]}
    file.write_text(json.dumps(undone))
    advice["answer"]["gain_ratio"] = 0.95
    (file.parent / "recommendation.json").write_text(json.dumps(advice))
    refused(
        invoke(*words(trace, *WIDE)), "does not fit the trace: gain_ratio is 0.95", error=InputError
    )
    file.write_text(json.dumps({**undone, "steps": told["steps"][:-2]}))
    lost = file.parent / "nvm-2" / "device" / "profile.toml"
    lost.unlink()
    refused(invoke(*words(trace, *WIDE)), f"{lost}: there is no such file", error=InputError)


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """Yield a folder in which flushes take no time."""
    with TemporaryDirectory(dir="/dev/shm") as place:
        yield Path(place)


@pytest.mark.slow
def test_real_targets_are_written_when_confirmed(trace: Path, in_memory: Path) -> None:
    targets = [in_memory / "base.img", in_memory / "nvm.img"]
    for one in targets:
        one.write_bytes(bytes(8 << 20))
    named = {"base": str(targets[0]), "nvm": str(targets[1])}
    tokens = [word for one in targets for word in ("--write-to", str(one))]
    # GIVEN no confirmation, or one of them, THEN nothing is written
    for some, why in (((), "everything on both targets is lost"), (tokens[:2], "nvm.img is conf")):
        done = invoke(*words(trace, *some, **named))
        refused(done, why)
        assert str(targets[1]) in done.exception.hint  # type: ignore[union-attr]
        assert not any(any(one.read_bytes()) for one in targets)
        assert not (trace / "proof").exists()
    # WHEN both are confirmed
    for _ in range(3):
        # A device that is measured on a processor that others have may be refused: it goes on.
        done = invoke(*words(trace, *tokens, *WIDE, "--rounds", "1", **named))
        if "no profile is written" not in str(done.exception):
            break
    else:
        load, processors = os.getloadavg()[0], os.cpu_count() or 1
        assert load > processors, done.exception
        pytest.skip(f"the machine is too busy for a measurement, load {load}: {done.exception}")
    # THEN both are measured and replayed on, and stay as long as they were; where by chance the one
    # file is no faster than the other, nothing is to be placed
    if isinstance(done.exception, InputError):
        refused(done, "the answer for these devices is to leave everything", error=InputError)
        return
    assert ends_with_a_verdict(done), done.output
    told = json_of(trace / "proof" / "proof.json")
    assert not told["is_self_test"]
    assert "self-test" not in done.stdout
    assert all(step["machine"]["tasks"] is not None for step in told["steps"])
    assert all(any(one.read_bytes()) for one in targets)
    assert [one.stat().st_size for one in targets] == [8 << 20] * 2
    for one in targets:
        assert f"{one} was measured 1 times, 4 MiB of it" in done.stdout


@pytest.mark.slow
def test_a_step_says_how_long_the_rest_takes_once_both_were_measured(trace: Path) -> None:
    told: list[str] = []
    options = ProveOptions(
        base="slow", nvm="fast", quick=True, scale=0.001, rounds=2, size_bytes=4 << 20,
        seconds=600, repeats=2, profiles=trace.parent / "own.toml",
    )  # fmt: skip
    prove(
        TraceFolder(trace),
        options,
        output=trace / "proof",
        on_step=lambda text, *_: told.append(text),
    )
    # THEN nothing is said before the second measurement of one, which is the same target's again
    first = [text for text in told if re.match(r"characterize (base|nvm) 1", text)]
    assert first
    assert not any(" more)" in text for text in first)
    # AND from then on 3 placements, 2 replays each, of at most 600 s: an hour
    rest = [text for text in told if text not in first and text != "recommend"]
    assert rest[0].startswith("characterize nvm 2")
    assert rest[-1].startswith("verify")
    assert all(re.search(r"\(all: about (1 h|59 min|3,600 s)[^)]* more\)", one) for one in rest)


@pytest.mark.parametrize(
    ("tasks", "is_self_test", "verdict"),
    [(0.0, False, "held"), (3.0, False, "cannot tell"), (3.0, True, "held")],
)
def test_on_a_busy_machine_nobody_can_tell(tasks: float, is_self_test: bool, verdict: str) -> None:
    # GIVEN replays after which the prediction held, while other tasks ran in one of the steps
    steps = [Step("base 1", Use(0.0, 0.0)), Step("verify", Use(tasks, 0.001))]
    proof = Proof(asked={}, trace={}, sizes=[], steps=steps, is_self_test=is_self_test)
    held = {"verdict": "held", "is_held": True, "reason": None, "emulation_late": None}
    conclude(proof, {**held, "headline": ["The prediction held."]})
    assert proof.verdict == verdict
    assert proof.is_held == (True if verdict == "held" else None)
    if verdict != "held":
        assert proof.headline[0].startswith(
            "Cannot tell whether the prediction holds, since the machine was busy: 3.0 other tasks"
            " ran, 0.1% of time was stolen in the step 'verify'."
        )


@pytest.mark.parametrize(
    ("use", "is_busy"),
    [
        (Use(0.0, 0.0), False),
        (Use(0.4, 0.01), False),
        (Use(0.6, 0.0), True),
        (Use(None, 0.03), True),
        (Use(None, None), False),
    ],
)
def test_what_a_busy_machine_is(use: Use, is_busy: bool) -> None:
    assert use.is_busy == is_busy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"base": "nowhere", "nvm": "wide.img"}, "--base nowhere: there is no such file"),
        ({"nvm": "small.img"}, "--nvm small.img: has 4 MiB, and 8 MiB are replayed there"),
        ({"base": "wide.img", "nvm": "wide.img"}, "--nvm wide.img are the same"),
        ({"nvm": "wide.img"}, "--base slow and --nvm wide.img: one is emulated, the other is real"),
        ({"base": "trace/requests.parquet", "nvm": "wide.img"}, "a file of the trace"),
        ({"--rounds": "0"}, "--rounds 0: not from 1 to 64"),
        ({"--repeat": "0"}, "--repeat 0"),
        ({"--size": "1MiB"}, "1 MiB are too small to be characterized"),
        ({"--profiles": "none.toml"}, "none.toml: there is no such file"),
    ],
)
def test_refusals(
    changes: dict[str, str], message: str, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trace.parent)
    for name, size in (("small.img", 4), ("wide.img", 64)):
        Path(name).write_bytes(bytes(size << 20))
    own = {"base": "wide.img"} if changes.get("nvm") == "small.img" else {}
    named = {"base": "slow", "nvm": "fast", **own, **changes}
    given = [word for key, one in named.items() if key.startswith("--") for word in (key, one)]
    capacity = ["--capacity", "8MiB"]
    done = invoke(*words(trace, *given, *capacity, base=named["base"], nvm=named["nvm"]))
    refused(done, message, error=Exception)
    assert not isinstance(done.exception, BudgetError | UnclearError)
    assert not (trace / "proof" / "base-1" / "device" / "device.json").exists()


def test_an_interrupted_round_is_of_one_trace_and_of_the_same_options(
    trace: Path, tmp_path: Path
) -> None:
    # GIVEN a signal while a device is measured
    place = tmp_path / "kept"
    begun = subprocess.Popen(
        [sys.executable, "-m", "tracekit", *words(trace, "-o", str(place), "--scale", "9")],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    kept = place / "base-1" / "device" / "state.json"
    while begun.poll() is None and not kept.exists():
        time.sleep(0.01)
    begun.send_signal(signal.SIGINT)
    _, told = begun.communicate(timeout=20)
    # THEN it ends at once, and the state says which step it was
    assert begun.returncode != 0
    assert json_of(place / "proof.json")["running"] == "base 1"
    assert "Traceback" not in told
    # AND other options, another trace and a damaged file are named
    refused(invoke(*words(trace, "--output", str(place))), "begun with scale 9.0, not 0.001")
    other = write_trace(
        tmp_path / "other", requests()[:90], counts={"requests": 90}, source={"files": []}
    )
    found = invoke(*words(other, "--output", str(place), "--scale", "9"))
    refused(found, "this proof is of another trace", "its requests have the SHA-256")
    (place / "proof.json").write_text("{")
    damaged = invoke(*words(trace, "--output", str(place), "--scale", "9"))
    refused(damaged, "proof.json", error=InputError)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "notes").write_text("mine")
    refused(invoke(*words(trace, "--output", str(taken), "--force")), "exists already")
    assert (taken / "notes").read_text() == "mine"


def device(name: str, factor: float, **more: float | None) -> Profile:
    values = {"read": 50.0, "write": 70.0}
    latencies = {f"{key}_latency_us": us * factor for key, us in values.items()}
    rates = {f"{key}_mib_s": 500 / factor for key in values}
    other = {"flush_us": 300.0 * factor, "fua_us": 40.0 * factor, "price_per_gb": 1.0, **more}
    return Profile(name=name, about=name, **latencies, **rates, **other)  # type: ignore[arg-type]


def test_measurements_far_apart_make_a_profile_that_is_read(tmp_path: Path) -> None:
    # GIVEN two measurements, one of which a busy machine made three times as long
    alone = [[0.0, 40.0], [0.5, 48.0], [1.0, 60.0]]
    both = [
        write_profile(
            tmp_path / "one.toml",
            "disk",
            values={k: v for k, v in vars(device("disk", f)).items() if isinstance(v, float)},
            about="",
            tables={"read_quantiles_us": [[p, us * f] for p, us in alone]},
        )
        for f in (1, 3)
    ]
    # WHEN the two are made one
    write_tables(tmp_path / "both.toml", {"disk": middle_of(both, medians_of(both))})
    # THEN its distribution has the form of theirs, and its own latency
    disk = load_profiles(tmp_path / "both.toml")["disk"]
    assert disk.read_latency_us == pytest.approx(100)
    assert disk.read_quantiles_us is not None
    assert mean_of(disk.read_quantiles_us) == pytest.approx(2 * mean_of([(p, u) for p, u in alone]))


def test_several_measurements_make_one_profile_and_an_interval(trace: Path) -> None:
    # GIVEN three measurements of two devices, one of them with a cheaper sequence
    base = [
        device("disk", f, sequential_setup_us=s) for f, s in ((1, 9.0), (1.2, None), (0.9, 8.0))
    ]
    nvm = [device("nvm", factor) for factor in (0.2, 0.1, 0.3)]
    file = trace.parent / "measured.toml"
    for number, one in enumerate(base):
        values = {key: v for key, v in vars(one).items() if isinstance(v, float)}
        base[number] = write_profile(file, "disk", values=values, about="")
    measured = {"disk": base, "nvm": nvm}
    write_tables(file, {name: middle_of(one, medians_of(one)) for name, one in measured.items()})
    known = load_profiles(file)
    disk = known["disk"]
    # THEN each part is the median: of setups and of times a byte
    assert disk.read_latency_us == pytest.approx(50)
    assert disk.write_mib_s == pytest.approx(500)
    assert disk.sequential_setup_us == pytest.approx(8.5)
    assert [one.flush_us for one in disk.measured] == pytest.approx([300, 360, 270])
    assert known["nvm"].measured[1].write_latency_us == pytest.approx(7)
    # AND a prediction has the time by each of them, as an explicit sum has it
    folder = TraceFolder(trace)
    advice = recommend(folder, RecommendOptions("disk", "nvm", (20 << 12,), profiles=file))
    found = predict(folder, advice, answer=advice.answer)
    pairs = DevicePair(disk, known["nvm"]).measured
    told = [model(requests(), set(), pair).service / 1000 for pair in pairs]
    assert [one.base_ns for one in found.repeats] == pytest.approx(told, abs=1)
    gains = [1 - one.placed_ns / one.base_ns for one in found.repeats]
    kept = advice.gain_range
    assert kept is not None
    assert kept.repeat is not None
    assert (kept.repeat.low.gain_ratio, kept.repeat.high.gain_ratio) == pytest.approx(
        (min(gains), max(gains)), abs=1e-6
    )
    assert any("by each of 3 measurements of the devices" in line for line in advice.headline)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("repeats = [{read_latency_us = 1}]", "key 'repeats': not 2 to 64 tables"),
        ("repeats = [{rpm = 1}, {rpm = 2}]", "number 1: unknown key 'rpm'"),
        ("repeats = [{flush_us = 1}, {flush_us = -2}]", "-2 is not a number from 0 up"),
        ("repeats = [{read_latency_us = 0.1}, {flush_us = 2}]", "repeat 1: read_latency_us 0.1 is"),
    ],
)
def test_wrong_repeats_of_a_profile_are_named(change: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(OWN.replace("[fast]", f"{change}\n[fast]"))
    with pytest.raises(InputError, match=r"own.toml, line \d+: profile \[slow\]") as found:
        load_profiles(file)
    assert message in str(found.value)


RUNS = [(1.00e9, 0.70e9), (1.01e9, 0.71e9), (0.99e9, 0.69e9), (1.00e9, 0.70e9)]


@pytest.mark.parametrize(
    ("repeats", "verdict"),
    [
        ([], "held"),
        ([(1.0, 0.7), (1.01, 0.707), (0.99, 0.693)], "held"),
        # the devices themselves were measured as anything: nobody can tell
        ([(1.0, 0.7), (1.4, 0.98), (0.6, 0.42)], "cannot tell"),
        ([(1.0, 0.7), (1.0, 0.8), (1.0, 0.6)], "cannot tell"),
    ],
)
def test_the_spread_of_the_devices_is_in_the_verdict(
    repeats: list[tuple[float, float]], verdict: str
) -> None:
    known = [(base * 1e9, placed * 1e9) for base, placed in repeats]
    expected = Expected(10**9, 7 * 10**8, 0.3, {}, known)
    found = verdict_of(
        RUNS, expected, tolerances=Tolerances(0.05, 0.1), emulations=[(None, None)] * len(RUNS)
    )
    assert found.name == verdict
    if known:
        bases = np.array([base for base, _ in known]) / 1e9
        half = stats.t.ppf(0.975, len(bases) - 1) * stats.sem(bases)
        assert expected.spread.base_ratio == pytest.approx(half)


def test_a_wide_prediction_fails_no_gain_that_lies_in_it() -> None:
    told: dict[str, Any] = {"predicted_ratio": 0.36, "tolerance_ratio": 0.05}
    assert judge(RUNS, **told) == "did not hold"
    assert judge(RUNS, **told, spread_ratio=0.04) == "held"
    assert judge(RUNS, **told, spread_ratio=0.2) == "cannot tell"
