"""Every command of `tracekit simulate` on bad input: an exit status and a message, or an answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analyzers.folder import make
from tests.command_line import invoke, refused
from tests.simulate.asking import DEVICE, NAMES, ask, assert_finite, prepare
from tests.simulate.tier_traces import tier_trace
from tracekit.errors import InputError, TracekitError

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
