"""`tracekit characterize-device`: what it measures, prints and rejects."""

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, refused, succeed, with_free_bytes
from tests.traces import json_of, rows_of
from tracekit import query
from tracekit._native.players import Outcome, run_program
from tracekit.device.characterize import CharacterizeOptions, characterize
from tracekit.device.steps import Amounts, read_latencies
from tracekit.device.target import TargetOptions
from tracekit.devices import load_profiles
from tracekit.errors import InputError, PartialError, UsageError
from tracekit.replay.player import device_specs
from tracekit.store import TraceFolder
from tracekit.tables import DEVICE_FIT, DEVICE_LATENCY, DEVICE_STEPS

tracekit = partial(invoke, "characterize-device")
SMALL = Amounts(
    precondition=200, writes=500, reads=1000, sizes=100, flushes=100, surface=200,
    write_percents=(0, 100), depths=(1, 16),
)  # fmt: skip
FEW = [
    "--precondition", "50", "--writes", "50", "--reads", "50", "--sizes", "20", "--flushes", "20",
    "--surface", "50", "--write-percents", "0,100", "--depths", "4",
]  # fmt: skip
TINY = Amounts(
    precondition=50, writes=50, reads=50, sizes=20, flushes=20, surface=50,
    write_percents=(50,), depths=(4,),
)  # fmt: skip
LESS = Amounts(
    precondition=20, writes=50, reads=100, sizes=5, flushes=20, surface=50,
    write_percents=(0, 100), depths=(1, 16),
)  # fmt: skip
ATTEMPTS = 5
LANES = """
[lanes]
read_latency_us = 66.7
write_latency_us = 240.0
read_mib_s = 3242.0
write_mib_s = 500.0
sequential_setup_us = 10.0
flush_us = 400.0
fua_us = 300.0
parallelism = 5
price_per_gb = 6.0
"""
SLOW = """
[lanes]
read_latency_us = 667.0
write_latency_us = 2400.0
read_mib_s = 324.2
write_mib_s = 50.0
sequential_setup_us = 100.0
flush_us = 4000.0
fua_us = 3000.0
parallelism = 5
price_per_gb = 6.0
"""


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which the commands of a test remember what they made."""
    home = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home / "tracekit"


@pytest.fixture
def without_rate_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accept any rate of a real file: on a busy machine a fitted one can exceed that of memory.

    Which are rejected is in test_robust.py.
    """
    monkeypatch.setattr("tracekit.device.characterize.rate_fault", lambda *_a, **_k: None)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Characterize an emulated device of known times and five lanes."""
    place = tmp_path_factory.mktemp("device")
    (place / "own.toml").write_text(LANES)
    target = TargetOptions(device="lanes", profiles=place / "own.toml")
    characterize(place / "out", CharacterizeOptions(target=target, amounts=SMALL, price_per_gb=6.0))
    return place


def fitted(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["parameter"]: row for row in rows_of(folder / "device/device_fit.parquet")}


def least_us(folder: Path) -> dict[tuple[str, str, int], float]:
    """Return the shortest latency of each kind of step at depth 1, operation and length."""
    return {
        (row["kind"], row["operation"], row["length_bytes"]): row["min_ns"] / 1e3
        for row in rows_of(folder / "device/device_steps.parquet")
        if row["depth"] == 1 and row["operation"] != "all"
    }


def test_single_requests_take_what_is_emulated(measured: Path) -> None:
    # GIVEN a device of known times, on a machine that does other things, too: requests may come
    # late, but of hundreds some are in time, and none is early
    found = least_us(measured / "out")
    # THEN the shortest of each step is the profile's: latency, flush and FUA
    known = {
        ("random_read", "read", 4096): 66.7,
        ("random_write", "write", 4096): 240.0,
        ("flush", "flush", 4096): 400.0,
        ("fua", "write", 4096): 540.0,
        # 4 KiB less its transfer, then the whole transfer: 66.7 - 1.2049 + 308.45
        ("size", "read", 1 << 20): 373.95,
        # 240 - 7.8125 + 2000
        ("size", "write", 1 << 20): 2232.2,
        # 10 + 1.2049 and 10 + 7.8125, but the first, which goes on from nothing
        ("sequential", "read", 4096): 11.205,
        ("sequential", "write", 4096): 17.8125,
    }
    for step, time_us in known.items():
        assert time_us * 0.999 < found[step] < time_us * 1.05 + 1, step
    # AND a mean is never below it
    for name in ("read_latency_us", "write_latency_us", "flush_us"):
        assert fitted(measured / "out")[name]["error_ratio"] > -0.001


def test_the_profile_is_what_was_measured_for_every_command(measured: Path) -> None:
    found = fitted(measured / "out")
    profile = load_profiles(measured / "out/device/profile.toml")["lanes-measured"]
    for key in ("read_latency_us", "write_mib_s", "flush_us", "parallelism"):
        assert getattr(profile, key) == pytest.approx(found[key]["value"], rel=1e-5)
    assert profile.price_per_gb == 6.0
    emulated = device_specs(
        ("lanes-measured",), load_profiles(measured / "out/device/profile.toml")
    )
    assert emulated[0].startswith("read_setup_ns=")


def test_rates_and_lanes_are_found_again(tmp_path: Path) -> None:
    # GIVEN a device so slow that what else the machine does is little beside it, most of the time
    (tmp_path / "own.toml").write_text(SLOW)
    target = TargetOptions(device="lanes", profiles=tmp_path / "own.toml")
    near = {"read_mib_s": 0.1, "write_mib_s": 0.1, "sequential_setup_us": 0.3, "fua_us": 0.2,
            "read_median_us": 0.1, "write_median_us": 0.1, "parallelism": 0.21}  # fmt: skip
    seen: dict[str, list[float]] = {name: [] for name in near}
    for number in range(ATTEMPTS):
        # THEN each is found in one of the measurements
        characterize(tmp_path / str(number), CharacterizeOptions(target=target, amounts=LESS))
        found = fitted(tmp_path / str(number))
        for name in near:
            seen[name].append(found[name]["error_ratio"])
        off = {name: seen[name] for name in near if min(map(abs, seen[name])) > near[name]}
        if not off:
            return
    pytest.fail(f"never near in {ATTEMPTS} measurements: {off}")


def test_the_tables_are_as_the_schema_says(measured: Path) -> None:
    folder = TraceFolder(measured / "out")
    for name, columns in (
        ("device_steps", DEVICE_STEPS), ("device_latency", DEVICE_LATENCY),
        ("device_fit", DEVICE_FIT),
    ):  # fmt: skip
        assert pq.read_schema(folder.table(f"device/{name}")).equals(columns)
    with query.connect_locked(folder, memory_mib=256) as connection:
        rows = query.ask(
            connection,
            "select sum(l.requests) as counted, any_value(s.requests) as told, s.kind"
            " from device_latency l join device_steps s using (step, kind, operation)"
            " group by s.kind order by s.kind",
        )
        found = [row for batch in rows.batches for row in batch.to_pylist()]
    assert found == [
        {"counted": 1000, "told": 1000, "kind": "random_read"},
        {"counted": 500, "told": 500, "kind": "random_write"},
    ]


def test_the_report_of_a_folder_without_a_trace(measured: Path) -> None:
    succeed("report", measured / "out")
    page = (measured / "out/report.html").read_text()
    for part in ("figure-device-read", "figure-device-write", "figure-device-surface"):
        assert f'id="{part}"' in page
    # AND nothing is said of a trace that there is not
    assert "classify" not in page
    assert "Not in this report yet" not in page


@pytest.mark.usefixtures("without_rate_check")
def test_a_file_is_made_and_goes_away(tmp_path: Path) -> None:
    ran = tracekit(tmp_path / "new.img", "--size", "8MiB", "-o", tmp_path / "out", *FEW, "--json")
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    assert not (tmp_path / "new.img").exists()
    assert not (tmp_path / "out/device/state.json").exists()
    assert (told["kind"], told["may_write"], told["missing"]) == ("made file", True, [])
    assert told["asked"][:4] == ["--output", str(tmp_path / "out"), "--size", "8MiB"]
    refused(tracekit(tmp_path / "new.img", "-o", tmp_path / "out"))
    assert not (tmp_path / "new.img").exists()


@pytest.mark.usefixtures("without_rate_check")
def test_an_existing_file_is_only_read_without_leave(tmp_path: Path) -> None:
    target = tmp_path / "disk.img"
    target.write_bytes(b"precious" * (1 << 20))
    # WHEN nobody has allowed to write there
    ran = succeed("characterize-device", target, "-o", tmp_path / "out", *FEW)
    assert target.read_bytes() == b"precious" * (1 << 20)
    assert "no device profile: write_latency_us" in ran.stdout
    assert f"--write-to {target}" in ran.stderr
    steps = rows_of(tmp_path / "out/device/device_steps.parquet")
    assert {row["write_ratio"] for row in steps} == {0.0}
    # AND another token than its own is refused before anything is done
    ran = tracekit(target, "-o", tmp_path / "b", *FEW, "--write-to", tmp_path / "other.img")
    assert ran.exit_code != 0
    assert not (tmp_path / "b").exists()
    # AND with its own it is written
    succeed("characterize-device", target, "-o", tmp_path / "c", *FEW, "--write-to", target)
    assert b"precious" not in target.read_bytes()


def test_a_file_with_holes_is_named_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN a rate that no device has, of a file that was never written and of one that was
    monkeypatch.setattr(
        "tracekit.device.characterize.rate_fault", lambda *_a, **_k: ("read", "reads at 9 TiB/s")
    )
    hollow, full = tmp_path / "hollow.img", tmp_path / "full.img"
    with hollow.open("wb") as file:
        file.truncate(8 << 20)
    full.write_bytes(b"precious" * (1 << 20))
    # THEN the holes are said, and what helps
    for target, said, hint in (
        (hollow, "reads at 9 TiB/s; 100% of the file are holes", "a file that is written"),
        (full, "reads at 9 TiB/s; no profile is written", "close other load"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            characterize(tmp_path / target.name.removesuffix(".img"), options(target))
        assert hint in (caught.value.hint or "")


def options(path: Path, **changes: Any) -> CharacterizeOptions:
    target = TargetOptions(path=path, size_bytes=8 << 20)
    return CharacterizeOptions(target=target, amounts=changes.pop("amounts", TINY), **changes)


def interrupt_in_step(
    monkeypatch: pytest.MonkeyPatch, number: int, *, is_partial: bool
) -> list[int]:
    """Let the program be interrupted in one of its steps; return the numbers of all that ran."""
    steps: list[int] = []

    def run(plan: Path, summary: Path, *, arguments: Any) -> Outcome:
        outcome = run_program(plan, summary, arguments=arguments)
        steps.append(len(steps) + 1)
        if steps[-1] == number:
            return Outcome({**outcome.summary, "outcome": "interrupted"}, "", is_partial=is_partial)
        return outcome

    monkeypatch.setattr("tracekit.device.characterize.run_program", run)
    return steps


@pytest.mark.usefixtures("without_rate_check")
def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = interrupt_in_step(monkeypatch, 5, is_partial=True)
    target = tmp_path / "new.img"
    with pytest.raises(PartialError, match="4 steps are done and kept"):
        characterize(tmp_path / "out", options(target))
    # THEN the file stays, because it is filled
    assert target.stat().st_size == 8 << 20
    # AND asked for something else, it does not go on
    with pytest.raises(UsageError, match="another --reads: 50, not 9"):
        characterize(tmp_path / "out", options(target, amounts=replace(TINY, reads=9)))
    aimed = TargetOptions(path=target)
    with pytest.raises(UsageError, match="another --size: 8388608, not none"):
        characterize(tmp_path / "out", CharacterizeOptions(target=aimed, amounts=TINY))
    # AND asked the same, it measures the rest alone
    result = characterize(tmp_path / "out", options(target))
    assert result["resumed"] == 1
    assert len(steps) == 5 + result["steps"] - 4
    assert any("in 2 parts" in line for line in result["warnings"])
    assert not target.exists()


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a measurement of new.img that was interrupted."""
    with monkeypatch.context() as patch:
        interrupt_in_step(patch, 3, is_partial=True)
        with pytest.raises(PartialError) as caught:
            characterize(tmp_path / "out", options(tmp_path / "new.img"))
    assert caught.value.hint.endswith("new.img stays until then")
    return tmp_path / "out"


@pytest.mark.usefixtures("without_rate_check")
def test_a_moved_folder_goes_on_and_nothing_is_left(interrupted: Path, state: Path) -> None:
    # GIVEN a trace folder that got another name after its measurement was interrupted
    folder, target = interrupted.rename(interrupted.with_name("moved")), interrupted.parent
    (entry,) = (state / "made").iterdir()
    assert (state.stat().st_mode & 0o777, entry.parent.stat().st_mode & 0o777) == (0o700, 0o700)
    # WHEN the same is asked
    result = characterize(folder, options(target / "new.img"))
    # THEN it goes on, and neither the file nor its entry stays
    assert result["resumed"] == 1
    assert not (target / "new.img").exists()
    assert list((state / "made").iterdir()) == []


@pytest.mark.usefixtures("without_rate_check")
def test_a_folder_does_not_say_what_was_made_for_it(interrupted: Path, tmp_path: Path) -> None:
    # GIVEN a folder with the state of a measurement of a precious file, as somebody else sent it
    precious = tmp_path / "precious.img"
    precious.write_bytes(b"precious" * (1 << 20))
    sent = tmp_path / "sent"
    shutil.copytree(interrupted, sent)
    content = json_of(sent / "device/state.json")
    inode = [precious.stat().st_dev, precious.stat().st_ino]
    content["asked"]["target"] = str(precious)
    content["made"] = {"path": str(precious), "inode": inode}
    (sent / "device/state.json").write_text(json.dumps(content))
    # WHEN it is gone on with, THEN that is rejected
    with pytest.raises(UsageError, match="the file that the interrupted measurement made is gone"):
        characterize(sent, options(precious))
    # AND begun anew, the file is read as any other, and stays
    result = characterize(sent, options(precious, overwrite=True))
    assert not result["may_write"]
    assert precious.read_bytes() == b"precious" * (1 << 20)
    # AND what another folder's measurement made is not its own
    assert (tmp_path / "new.img").exists()


@pytest.mark.usefixtures("without_rate_check")
def test_begun_anew_what_was_made_goes_away(interrupted: Path, tmp_path: Path) -> None:
    result = characterize(interrupted, options(tmp_path / "other.img", overwrite=True))
    assert (result["kind"], result["resumed"]) == ("made file", 0)
    assert list(tmp_path.glob("*.img")) == []


@pytest.mark.usefixtures("without_rate_check")
def test_entries_whose_file_is_gone_are_dropped(
    interrupted: Path, tmp_path: Path, state: Path
) -> None:
    # GIVEN an entry of a file that the user removed, and a torn one
    (tmp_path / "new.img").unlink()
    (state / "made/torn.json").write_bytes(bytes(100))
    assert len(list((state / "made").iterdir())) == 2
    # WHEN another measurement makes a file and is done
    characterize(tmp_path / "b", options(tmp_path / "b.img"))
    # THEN no entry is left
    assert interrupted.exists()
    assert list((state / "made").iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (bytes(600), "not valid JSON"),
        (b"{}", "asked is missing"),
        ((b'"requests": 8', b'"requests": 9'), "cannot be"),
        ((b'"all"', b'"most"'), "cannot be"),
    ],
)
@pytest.mark.usefixtures("without_rate_check")
def test_a_damaged_state_is_named_and_force_begins_anew(
    interrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: Any, message: str
) -> None:
    file = interrupted / "device/state.json"
    whole = file.read_bytes()
    content = changed if isinstance(changed, bytes) else whole.replace(*changed)
    assert content != whole
    file.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        characterize(interrupted, options(tmp_path / "new.img"))
    assert str(file) in str(caught.value)
    assert caught.value.hint == "pass --force to begin anew"
    # AND begun anew, which needs no end to be seen, it has one step where there were two
    interrupt_in_step(monkeypatch, 2, is_partial=True)
    with pytest.raises(PartialError, match=r"\b1 steps are done and kept"):
        characterize(interrupted, options(tmp_path / "new.img", overwrite=True))


def test_results_behind_a_link_are_rejected(tmp_path: Path) -> None:
    # GIVEN a trace folder whose device folder is a link to a project with a file of the same name
    folder = tmp_path / "out"
    characterize(folder, CharacterizeOptions(target=TargetOptions(device="ssd-emlc"), amounts=TINY))
    shutil.rmtree(folder / "device")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/state.json").write_text("{}")
    (folder / "device").symlink_to("../project")
    # WHEN it is measured anew THEN that is rejected, and the file stays
    with pytest.raises(InputError, match="device is a link"):
        characterize(folder, options(tmp_path / "new.img", overwrite=True))
    assert (tmp_path / "project/state.json").read_text() == "{}"


def test_a_state_folder_of_somebody_else_is_named_before_anything_is_made(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state.write_text("")
    with pytest.raises(InputError, match="cannot keep what is made for a run") as caught:
        characterize(tmp_path / "out", options(tmp_path / "new.img"))
    assert caught.value.hint == "set XDG_STATE_HOME to a folder of your own"
    if os.geteuid() == 0:
        state.unlink()
        state.mkdir()
        os.chown(state, 65534, 65534)
        with pytest.raises(InputError, match="tracekit is not a folder of yours"):
            characterize(tmp_path / "out", options(tmp_path / "new.img"))
        # AND root makes no folders in the home of somebody else
        os.chown(state.parent, 65534, 65534)
        monkeypatch.setenv("HOME", str(state.parent))
        monkeypatch.delenv("XDG_STATE_HOME")
        with pytest.raises(InputError, match="is not a folder of yours"):
            characterize(tmp_path / "out", options(tmp_path / "new.img"))
        assert os.listdir(state.parent) == ["tracekit"]
    assert list(tmp_path.iterdir()) == []
    # AND what makes no file needs none
    emulated = TargetOptions(device="ssd-emlc", size_bytes=8 << 20)
    characterize(tmp_path / "out", CharacterizeOptions(target=emulated, amounts=TINY))


@pytest.mark.usefixtures("without_rate_check")
def test_an_earlier_answer_stays_until_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # GIVEN an answer, and a file of the user beside it
    place = tmp_path / "out/device"
    emulated = TargetOptions(device="ssd-emlc", size_bytes=8 << 20)
    first = CharacterizeOptions(target=emulated, amounts=TINY)
    characterize(tmp_path / "out", first)
    (place / "note.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    # WHEN it is measured again, and interrupted, THEN nothing of it is gone
    with monkeypatch.context() as patched:
        interrupt_in_step(patched, 3, is_partial=True)
        with pytest.raises(PartialError):
            characterize(tmp_path / "out", replace(first, overwrite=True))
    after = {path.name: path.read_bytes() for path in place.iterdir() if path.is_file()}
    assert before == {name: after[name] for name in before}
    # AND asked the same, it goes on, and the new answer takes its place
    assert characterize(tmp_path / "out", first)["resumed"] == 1
    assert json_of(place / "device.json")["resumed"] == 1
    assert sorted(path.name for path in place.iterdir()) == sorted(before)


def test_a_replaced_target_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "new.img"
    interrupt_in_step(monkeypatch, 3, is_partial=False)
    with pytest.raises(PartialError):
        characterize(tmp_path / "out", options(target))
    target.rename(tmp_path / "ours.img")
    target.write_bytes(b"theirs" * 4_000_000)
    with pytest.raises(UsageError, match="is gone"):
        characterize(tmp_path / "out", options(target))
    result = characterize(tmp_path / "out", options(target, overwrite=True))
    assert not result["may_write"]
    assert target.read_bytes() == b"theirs" * 4_000_000


def test_failed_requests_have_an_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a device on which two requests of each step of reads fail
    def failing(*given: Any, **named: Any) -> Any:
        found, pace = read_latencies(*given, **named)
        if set(found) == {"all", "read"}:
            found["all"].failed = found["read"].failed = 2
        return found, pace

    monkeypatch.setattr("tracekit.device.characterize.read_latencies", failing)
    ran = tracekit("--device", "ssd-emlc", "--size", "8MiB", *FEW, "-o", tmp_path / "out")
    told = json_of(tmp_path / "out/device/device.json")
    table = rows_of(tmp_path / "out/device/device_steps.parquet")
    failed = sum(row["failed"] for row in table if row["operation"] == "all")
    assert told["failed"] == failed >= 2
    assert isinstance(ran.exception, PartialError)
    assert str(ran.exception).startswith(f"{failed} requests failed")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to characterize was named"),
        (["--device", "nope"], "no device profile 'nope'"),
        (["--device", "ssd-emlc", "--engine", "threads"], "needs the emulated engine"),
        (["x.img", "--engine", "emulated"], "needs --device"),
        (["--device", "ssd-emlc", "--size", "1MiB"], "too small"),
        (["--device", "ssd-emlc", "--size", "0"], "0 B are too small"),
        (["--device", "ssd-emlc", "--price", "nan"], "--price nan"),
        (["--device", "ssd-emlc", "--scale", "nan"], "--scale nan"),
        (["--device", "ssd-emlc", "--depths", "1,x"], "--depths 1,x"),
        (["--device", "ssd-emlc", "--price", "0"], "--price 0"),
        (["--device", "ssd-emlc", "--like", "nope"], "no device profile 'nope'"),
        (["--device", "ssd-emlc", "--name", "a b"], "not a profile's name"),
        (["--device", "ssd-emlc", "--seed", "-1"], "--seed -1"),
    ],
)
def test_what_cannot_be_is_rejected_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(tracekit(*arguments, "-o", tmp_path / "out"), message)
    assert list(tmp_path.iterdir()) == []


def test_engines_that_measure_nothing_are_neither_offered_nor_taken(tmp_path: Path) -> None:
    ran = tracekit(tmp_path / "x.img", "--engine", "null", "-o", tmp_path / "out")
    assert ran.exit_code == 2
    known = "'auto', 'io_uring', 'threads', 'dax', 'emulated'"
    assert f"'null' is not one of {known}." in ran.output
    with pytest.raises(UsageError, match="--engine nvme: not one of auto, io_uring, threads"):
        TargetOptions(path=tmp_path / "x.img", engine="nvme")


def test_a_file_smaller_than_the_size_and_a_folder_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "small.img").write_bytes(bytes(8 << 20))
    ran = tracekit(tmp_path / "small.img", "--size", "9MiB", "-o", tmp_path / "out")
    assert "--size 9 MiB" in str(ran.exception)
    ran = tracekit(tmp_path, "-o", tmp_path / "out")
    assert ran.exit_code != 0
    # AND a folder of something else does not get results
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.txt").write_text("mine")
    ran = tracekit("--device", "ssd-emlc", *FEW, "-o", tmp_path / "docs")
    assert "is no trace folder" in str(ran.exception)
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["a.txt"]


def test_a_full_disk_is_reported_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN a disk with 10 MiB free
    with_free_bytes(monkeypatch, tmp_path, 10 << 20)
    ran = tracekit(tmp_path / "new.img", "--size", "12MiB", *FEW, "-o", tmp_path / "out")
    refused(ran, "new.img: 12 MiB are needed, 10 MiB are free on its disk", error=InputError)
    assert list(tmp_path.iterdir()) == []
    # AND so of a file that is there, but was never written
    sparse = tmp_path / "sparse.img"
    with sparse.open("wb") as file:
        file.truncate(12 << 20)
    ran = tracekit(sparse, "--write-to", sparse, *FEW, "-o", tmp_path / "out")
    refused(ran, "sparse.img: 12 MiB are needed, 10 MiB are free on its disk", error=InputError)


def test_a_read_only_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    target = tmp_path / "disk/new.img"
    ran = tracekit(target, "--size", "12MiB", *FEW, "-o", tmp_path / "out")
    assert f"{target}: {target.parent} cannot be written to" in str(ran.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["disk"]
