"""Numbers and text as the report writes them."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.report import formatting as fmt


def plain(text: str) -> str:
    """Return the text with ordinary spaces, so that the expectations below can be read."""
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (999, "999"), (4092015.0, "4,092,015"), (-12, "-12"), (None, "–")],  # noqa: RUF001
)
def test_count(value: float | None, text: str) -> None:
    assert fmt.count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (4096, "4 KiB"),
        (1023 * 1024, "1,023 KiB"),
        (3 << 19, "1.5 MiB"),
        (10113024, "9.64 MiB"),
        (5 << 40, "5 TiB"),
        (math.nan, "–"),  # noqa: RUF001
    ],
)
def test_data(value: float, text: str) -> None:
    assert plain(fmt.data(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (20341, "20.3 µs"),
        (129601, "130 µs"),
        (999_999, "1 ms"),
        (61_800_000_000, "61.8 s"),
        (335_412_257_991, "335 s"),
        (1_500_000_000_000, "25 min 0 s"),
        (5_065_835_762_389, "1 h 24 min"),
        (8_000_000_000_000, "2 h 13 min"),
        (pd.NA, "–"),  # noqa: RUF001
    ],
)
def test_duration(value: object, text: str) -> None:
    assert plain(fmt.duration(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0 %"),
        (0.613, "61.3 %"),
        (1, "100.0 %"),
        (0.00001, "< 0.1 %"),
        (-0.00001, "> −0.1 %"),  # noqa: RUF001
        (0.99999, "> 99.9 %"),
        (-0.025, "−2.5 %"),  # noqa: RUF001
    ],
)
def test_share_shows_neither_a_little_as_nothing_nor_nearly_all_as_all(
    value: float, text: str
) -> None:
    assert plain(fmt.share(value)) == text


def test_number_and_unit_stay_on_one_line() -> None:
    for text in (fmt.data(4096), fmt.duration(5000), fmt.share(0.5), fmt.plural(2, "request")):
        assert " " not in text


def test_listing() -> None:
    assert [fmt.listing(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_plural() -> None:
    assert plain(fmt.plural(1, "request")) == "1 request"
    assert plain(fmt.plural(1200, "request")) == "1,200 requests"
    assert fmt.verb_plural("flush") == "flushes"
    assert fmt.verb_plural("read") == "reads"


def test_printable_shows_what_would_hide_or_reorder() -> None:
    assert fmt.printable("a\x00b\x1b[2J\u202ec\ud800") == "a\\x00b\\x1b[2J\\u202ec\\ud800"


@given(st.text())
def test_printable_text_is_valid_in_xml(text: str) -> None:
    shown = fmt.printable(text)
    assert all(character.isprintable() or character.isspace() for character in shown)
    assert not any(ord(character) < 32 for character in shown)


@given(st.integers(0, 10**19))
def test_a_time_is_never_written_wrong_by_a_percent(time_ns: int) -> None:
    text = plain(fmt.duration(time_ns)).replace(",", "")
    units = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9}
    words = text.split()
    read = sum(
        float(amount) * units[unit] for amount, unit in zip(words[::2], words[1::2], strict=True)
    )
    assert read == pytest.approx(time_ns, rel=0.01, abs=0.5)
