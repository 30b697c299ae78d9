"""Every command of `tracekit simulate` on bad input: an exit status and a message, or an answer."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.command_line import invoke, refused, succeed
from tests.simulate.asking import DEVICE, NAMES, ask, assert_finite, prepare, result_file
from tests.simulate.traces import make_trace, tier_trace
from tests.traces import Row, json_of, rows_of, write_folder
from tracekit.errors import InputError, TracekitError
from tracekit.store import TraceFolder

# Nothing saves no time and wears nothing out, which are answers.
ANSWERS_NOTHING = {
    "sensitivity": "saves 0.0%",
    "endurance": "Nothing is written",
    "purchase": "Do not buy: none of",
    "rivals": "there is nothing to cache",
}


def few(path: Path, name: str) -> TraceFolder:
    """Make a trace of three requests, and what the command needs beside them."""
    folder = tier_trace(path, [(0, "read", 0, 4096), (1, "write", 1, 4096), (2, "write", 1, 8192)])
    assert prepare(name, folder) is None
    return folder


def has_answer(folder: TraceFolder, name: str) -> bool:
    return result_file(folder, name).exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "accesses",
    [
        pytest.param([(0, "read", 0, 4096)], id="one-read"),
        pytest.param([(0, "write", 0, 4096)], id="one-write"),
        pytest.param([(second, "write", 0, 4096) for second in range(9)], id="only-writes"),
    ],
)
def test_little_traffic_has_a_finite_answer(tmp_path: Path, name: str, accesses: list[Any]) -> None:
    # GIVEN so little that ratios have zeros in them, and one role only
    folder = tier_trace(tmp_path / "trace", accesses)
    error = prepare(name, folder)
    result = ask(name, folder)
    if result.exception is None:
        assert_finite(folder, name)
        return
    assert isinstance(result.exception, TracekitError), result.exception
    assert str(folder.path) in str(result.exception) or error is not None
    assert not has_answer(folder, name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rows", [[], [{"operation": "flush", "length_bytes": 0}]])
def test_no_traffic_is_an_error_or_saves_nothing(
    tmp_path: Path, name: str, rows: list[Row]
) -> None:
    folder = write_folder(tmp_path / "trace", rows)
    prepare(name, folder)
    result = ask(name, folder)
    if name in ANSWERS_NOTHING:
        assert ANSWERS_NOTHING[name] in result.stdout
        assert_finite(folder, name)
        return
    refused(result, str(folder.path), error=InputError)
    assert not has_answer(folder, name)


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_that_is_no_trace_is_an_error(tmp_path: Path, name: str) -> None:
    refused(invoke("simulate", name, tmp_path), str(tmp_path), error=InputError)


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
    folder, file = few(tmp_path / "trace", name), tmp_path / "own.toml"
    file.write_text(text)
    refused(ask(name, folder, "--profiles", str(file)), str(file), message, error=InputError)


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("tiers", ["--capacity", "0"], "--capacity"),
        ("tiers", ["--capacity", "64KiB"], "holds 1 extents, the trace touches 2"),
        ("tiers", ["--tiers", "ssd-pcm,hdd-15k-misspelt"], "hdd-15k-misspelt"),
        ("tiers", ["--tiers", "ssd-pcm,ssd-flash,hdd-15k"], "no device profile 'ssd-flash'"),
        ("cache", ["--flash", "ssd-flash"], "no device profile 'ssd-flash'"),
        ("rivals", ["--placement", "1TiB"], "no answer for this capacity"),
        ("rivals", ["--placement", "nan"], "--placement: 'nan' is not a size"),
        ("endurance", ["--device", "ssd-flash"], "no device profile 'ssd-flash'"),
        ("sensitivity", ["--placement", "1TiB"], "no answer for this capacity"),
        ("endurance", ["--placement", "1TiB"], "no answer for this capacity"),
    ],
)
def test_bad_options_have_status_2(
    tmp_path: Path, name: str, words: list[str], message: str
) -> None:
    folder = few(tmp_path / "trace", name)
    result = ask(name, folder, *words)
    refused(result, message)
    assert getattr(result.exception, "exit_code", None) == 2
    assert getattr(result.exception, "hint", "") or "--capacity" in words
    assert not has_answer(folder, name)


@pytest.mark.parametrize("name", ["sensitivity", "endurance", "rivals"])
def test_there_must_be_a_recommendation(tmp_path: Path, name: str) -> None:
    folder = few(tmp_path / "trace", name)
    (folder.path / "recommendation.json").unlink()
    refused(ask(name, folder), "has no recommendation yet", error=TracekitError)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tiers", ["--step", "50", "--dynamic", "--window", "1s", "--vary", "window_s=2"]),
        ("buffer", ["--sizes", "64,128"]),
    ],
)
def test_the_options_are_kept_with_the_answer(tmp_path: Path, name: str, words: list[str]) -> None:
    folder = tier_trace(tmp_path / "trace", [(0, "read", 0, 4096), (3, "write", 1, 4096)])
    assert prepare(name, folder) is None
    result = ask(name, folder, *words, "--json")
    assert result.exception is None
    kept = json_of(folder.path / "simulations" / f"{name}.json")
    first = ["--extent", "64KiB"] if name == "tiers" else []
    assert kept["asked"] == [*first, *words]
    assert json.loads(result.stdout) == kept


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("tiers", ["--tiers", "ssd-pcm,hdd-15k"], id="tiers-without-flash"),
        ("tiers", ["--capacity", "1TiB"]),
        ("cache", ["--sizes", "1TiB"]),
        ("buffer", ["--buffers", "1024"]),
        # for which there is a recommendation
        ("sensitivity", ["--placement", "1TiB"]),
        ("endurance", ["--placement", "1TiB"]),
        ("rivals", ["--placement", "1TiB"]),
    ],
)
def test_more_than_the_footprint_has_an_answer(tmp_path: Path, name: str, words: list[str]) -> None:
    folder = few(tmp_path / "trace", name)
    if "--placement" in words:
        succeed("recommend", folder.path, "--capacity", "1TiB")
    assert ask(name, folder, *words).exit_code == 0
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
def test_a_bad_price_has_status_1(tmp_path: Path, name: str, option: str, *, is_zero: bool) -> None:
    # GIVEN a device with a price of zero, or one that has none
    folder, file = few(tmp_path / "trace", name), tmp_path / "own.toml"
    price = "price_per_gb = 0\n" if is_zero else ""
    latencies = "".join(DEVICE.splitlines(keepends=True)[1:3])
    file.write_text(
        (DEVICE if option == "--profiles" else f"[devices.hdd-15k]\n{latencies}") + price
    )
    result = ask(name, folder, option, str(file))
    why = "price of 0" if is_zero else "has no key"
    refused(result, str(file), "hdd-15k", "price_per_gb", why, error=InputError)
    assert getattr(result.exception, "exit_code", None) == 1
    assert not has_answer(folder, name)


def test_a_price_that_is_not_in_the_currency_is_reported(tmp_path: Path) -> None:
    folder, file = few(tmp_path / "trace", "endurance"), tmp_path / "what-if.toml"
    file.write_text('currency = "EUR"\n')
    result = ask("endurance", folder, "--what-if", str(file))
    assert result.exit_code == 0
    assert "in EUR is not known" in result.stdout
    assert_finite(folder, "endurance")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("block", "role"), [(0, "fs"), (1500, "journal")])
def test_tables_have_roles_of_the_trace(tmp_path: Path, name: str, block: int, role: str) -> None:
    requests = [(("read", "write")[at % 2], block + at % 5, 1) for at in range(20)]
    folder = make_trace(tmp_path / "trace", requests)
    assert prepare(name, folder) is None
    assert ask(name, folder).exit_code == 0
    assert_finite(folder, name)
    for file in (folder.path / "simulations").glob(f"{name}*.parquet"):
        if "role" in pq.read_schema(file).names:
            assert {row["role"] for row in rows_of(file)} - {"all", None} == {role}, file
