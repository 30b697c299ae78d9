"""Sizes as people write them."""

import pytest

from tracekit.errors import UsageError
from tracekit.units import format_duration, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("0", 0),
        ("64MiB", 64 << 20),
        ("64m", 64 << 20),
        ("64 MB", 64_000_000),
        ("1.5GiB", 3 << 29),
        ("2t", 2 << 40),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text, option="--capacity") == size


@pytest.mark.parametrize("text", ["", "-1", "MiB", "1.5.2G", "12 parsec", "1e3", "99999999PiB"])
def test_other_text_is_refused_with_the_option(text: str) -> None:
    with pytest.raises(UsageError, match="--capacity: "):
        parse_size(text, option="--capacity")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (4096, "4 KiB"),
        (24 << 20, "24 MiB"),
        (10113024, "9.64 MiB"),
        (1023 << 20, "1,023 MiB"),
        (5 << 40, "5 TiB"),
    ],
)
def test_sizes_are_written_with_three_digits(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(0, "0 ns"), (999_999, "1 ms"), (1_500, "1.5 us"), (25_042 * 10**9, "6 h 57 min")],
)
def test_durations_are_written_as_in_the_report(time_ns: int, text: str) -> None:
    assert format_duration(time_ns) == text
