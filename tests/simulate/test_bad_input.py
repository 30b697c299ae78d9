"""Every command of `tracekit simulate` on bad input: an exit status and a message, or an answer."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.analyzers.folder import make
from tests.command_line import invoke, refused
from tests.simulate.asking import DEVICE, NAMES, ask, assert_finite, prepare
from tests.simulate.traces import make_trace, tier_trace
from tracekit.errors import InputError, TracekitError, UsageError
from tracekit.store import TraceFolder

# Nothing saves no time and wears nothing out, which are answers.
ANSWERS_NOTHING = {"sensitivity": "saves 0.0%", "endurance": "Nothing is written"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "accesses",
    [
        pytest.param([(0, "read", 0, 4096)], id="one-read"),
        pytest.param([(0, "write", 0, 4096)], id="one-write"),
        pytest.param([(second, "write", 0, 4096) for second in range(9)], id="only-writes"),
    ],
)
def test_little_traffic_has_a_finite_answer_or_an_error_that_says_why(
    tmp_path: Path, name: str, accesses: list[Any]
) -> None:
    # GIVEN so little that ratios have zeros in them, and one role only
    folder = tier_trace(tmp_path / "trace", accesses)
    refused = prepare(name, folder)
    # WHEN it is asked
    result = ask(name, folder)
    # THEN all is finite, or it was the user's turn and they are told what is wrong
    if result.exception is None:
        assert_finite(folder, name)
        return
    assert isinstance(result.exception, TracekitError), result.exception
    assert str(folder.path) in str(result.exception) or refused is not None
    assert not (folder.path / "simulations" / f"{name}.json").exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [[], [{"operation": "flush", "length_bytes": "0"}]])
def test_a_trace_without_traffic_is_an_error_or_saves_nothing(
    tmp_path: Path, name: str, rows: list[dict[str, str]]
) -> None:
    folder = make(tmp_path / "trace", {"requests": rows})
    prepare(name, folder)
    result = ask(name, folder)
    if name in ANSWERS_NOTHING:
        assert ANSWERS_NOTHING[name] in result.stdout
        assert_finite(folder, name)
        return
    refused(result, str(folder.path), error=InputError)
    assert not (folder.path / "simulations" / f"{name}.json").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_is_no_trace_is_an_error(tmp_path: Path, name: str) -> None:
    result = invoke("simulate", name, tmp_path)
    refused(result, str(tmp_path), error=InputError)


@pytest.mark.parametrize("name", ["tiers", "cache"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[hdd-15k]\nread_latensy_us = 5\n", "read_latensy_us"),
        (DEVICE + "price_per_gb = nan\n", "price_per_gb"),
        (DEVICE + "price_per_gb = -1\n", "price_per_gb"),
        ("[hdd-15k\n", "TOML"),
    ],
)
def test_a_wrong_profile_is_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    folder = tier_trace(tmp_path / "trace", [(0, "read", 0, 4096)])
    prepare(name, folder)
    file = tmp_path / "own.toml"
    file.write_text(text)
    result = ask(name, folder, "--profiles", str(file))
    refused(result, str(file), message, error=InputError)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--capacity", "0"], "--capacity"),
        (["--capacity", "64KiB"], "holds 1 extents, the trace touches 2"),
        (["--tiers", "ssd-pcm,hdd-15k-misspelt"], "hdd-15k-misspelt"),
    ],
)
def test_tiers_that_cannot_be_are_named(tmp_path: Path, words: list[str], message: str) -> None:
    folder = tier_trace(tmp_path / "trace", [(0, "read", 0, 4096), (1, "write", 1, 4096)])
    result = ask("tiers", folder, *words)
    refused(result, message)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tiers", ["--step", "50", "--dynamic", "--window", "1s", "--vary", "window_s=2"]),
        ("buffer", ["--sizes", "64,128"]),
    ],
)
def test_the_options_are_kept_with_the_answer(tmp_path: Path, name: str, words: list[str]) -> None:
    folder = tier_trace(tmp_path / "trace", [(0, "read", 0, 4096), (3, "write", 1, 4096)])
    result = ask(name, folder, *words, "--json")
    assert result.exception is None
    kept = json.loads((folder.path / "simulations" / f"{name}.json").read_text())
    first = ["--extent", "64KiB"] if name == "tiers" else []
    assert kept["asked"] == [*first, *words]
    assert json.loads(result.stdout) == kept


def few(path: Path, name: str) -> TraceFolder:
    """Make a trace of three requests, and what the command needs beside them."""
    folder = tier_trace(path, [(0, "read", 0, 4096), (1, "write", 1, 4096), (2, "write", 1, 8192)])
    assert prepare(name, folder) is None
    return folder


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("tiers", ["--tiers", "ssd-pcm,ssd-flash,hdd-15k"], "no device profile 'ssd-flash'"),
        ("cache", ["--flash", "ssd-flash"], "no device profile 'ssd-flash'"),
        ("endurance", ["--device", "ssd-flash"], "no device profile 'ssd-flash'"),
        ("sensitivity", ["--placement", "1TiB"], "no answer for this capacity"),
        ("endurance", ["--placement", "1TiB"], "no answer for this capacity"),
    ],
)
def test_no_flash_and_no_such_placement_have_status_2(
    tmp_path: Path, name: str, words: list[str], message: str
) -> None:
    folder = few(tmp_path / "trace", name)
    result = ask(name, folder, *words)
    assert isinstance(result.exception, UsageError), result.exception
    assert result.exception.exit_code == 2
    assert message in str(result.exception)
    assert result.exception.hint
    assert not (folder.path / "simulations" / f"{name}.json").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("tiers", ["--tiers", "ssd-pcm,hdd-15k"], id="tiers-without-flash"),
        ("tiers", ["--capacity", "1TiB"]),
        ("cache", ["--sizes", "1TiB"]),
        ("buffer", ["--buffers", "1024"]),
    ],
)
def test_no_flash_and_more_than_the_footprint_are_answers(
    tmp_path: Path, name: str, words: list[str]
) -> None:
    folder = few(tmp_path / "trace", name)
    assert ask(name, folder, *words).exit_code == 0
    assert_finite(folder, name)


@pytest.mark.parametrize("name", ["sensitivity", "endurance"])
def test_a_placement_above_the_footprint_is_an_answer(tmp_path: Path, name: str) -> None:
    # GIVEN a recommendation for far more than was touched
    folder = few(tmp_path / "trace", name)
    words = ["recommend", str(folder.path), "--capacity", "1TiB"]
    assert invoke(*words).exit_code == 0
    # WHEN it is asked about, THEN the answer is finite
    assert ask(name, folder, "--placement", "1TiB").exit_code == 0
    assert_finite(folder, name)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("tiers", "--profiles"),
        ("cache", "--profiles"),
        ("endurance", "--profiles"),
        ("tiers", "--what-if"),
        ("endurance", "--what-if"),
    ],
)
@pytest.mark.parametrize("is_zero", [True, False])
def test_a_price_that_is_zero_or_missing_has_status_1(
    tmp_path: Path, name: str, option: str, *, is_zero: bool
) -> None:
    # GIVEN a device with a price of zero, or one that has none
    folder = few(tmp_path / "trace", name)
    price = "price_per_gb = 0\n" if is_zero else ""
    latencies = "".join(DEVICE.splitlines(keepends=True)[1:3])
    text = DEVICE if option == "--profiles" else f"[devices.hdd-15k]\n{latencies}"
    file = tmp_path / "own.toml"
    file.write_text(text + price)
    # WHEN it is asked about
    result = ask(name, folder, option, str(file))
    # THEN the file and the key are named and nothing is written
    assert isinstance(result.exception, InputError), result.exception
    assert result.exception.exit_code == 1
    for part in (str(file), "hdd-15k", "price_per_gb", "price of 0" if is_zero else "has no key"):
        assert part in str(result.exception)
    assert not (folder.path / "simulations" / f"{name}.json").exists()


def test_a_price_that_the_currency_lacks_is_said_in_the_answer(tmp_path: Path) -> None:
    folder = few(tmp_path / "trace", "endurance")
    file = tmp_path / "what-if.toml"
    file.write_text('currency = "EUR"\n')
    result = ask("endurance", folder, "--what-if", str(file))
    assert result.exit_code == 0
    assert "in EUR is not known" in result.stdout
    assert_finite(folder, "endurance")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("block", "role"), [(0, "fs"), (1500, "journal")])
def test_roles_that_the_trace_lacks_are_not_in_the_tables(
    tmp_path: Path, name: str, block: int, role: str
) -> None:
    # GIVEN a trace of one role
    operations = ("read", "write")
    asked = [(operations[at % 2], block + at % 5, 1) for at in range(20)]
    folder = make_trace(tmp_path / "trace", asked)
    assert prepare(name, folder) is None
    # WHEN any command is asked, THEN there is an answer, with rows of that role only
    assert ask(name, folder).exit_code == 0
    assert_finite(folder, name)
    for file in (folder.path / "simulations").glob(f"{name}*.parquet"):
        table = pq.read_table(file)
        if "role" in table.column_names:
            assert set(table["role"].to_pylist()) - {"all", None} == {role}, file
