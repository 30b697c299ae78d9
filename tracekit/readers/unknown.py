"""What the format of a foreign trace does not say, and what the user gives in its place."""

from __future__ import annotations

from dataclasses import replace

from tracekit.errors import UsageError
from tracekit.readers.formats import FioLog, Format
from tracekit.readers.text import TextFormat, user_words
from tracekit.readers.units import ImportOptions, Units
from tracekit.tables import OPERATIONS
from tracekit.units import SECTOR_BYTES

TIMES, KINDS, PAGES = "times", "operations", "page size"
MOST_PAGE_BYTES = 1 << 30


def lacks_of(form: Format, units: Units) -> list[str]:
    """Return which of the values that answers need a format does not have."""
    columns = form.columns if isinstance(form, TextFormat) else None
    has_times = columns is None or "time" in columns
    has_times |= isinstance(form, FioLog) and form.has_times
    has_operations = (
        form.has_operations if not isinstance(form, TextFormat) else "op" in form.columns
    )
    lacks = {
        TIMES: not has_times,
        KINDS: not has_operations,
        PAGES: units.has_pages,
    }
    return [name for name, is_lacking in lacks.items() if is_lacking]


def given_of(options: ImportOptions) -> dict[str, str]:
    """Return what the user gives in place of what a format lacks, in words."""
    page, rate, operation = options.page_bytes, options.rate, options.operation
    given = {
        TIMES: rate and f"{rate:,g} requests a second (--rate)",
        KINDS: operation and f"{operation} as the operation of all requests (--op)",
        PAGES: page and f"pages of {page:,} bytes (--page)",
    }
    return {name: text for name, text in given.items() if text}


def check_given(options: ImportOptions) -> None:
    """Raise UsageError for a rate or a page that no trace has."""
    rate, page = options.rate, options.page_bytes
    if rate is not None and not 1e-6 <= rate <= 1e9:
        raise UsageError(f"--rate {rate:g} is no rate", hint="requests a second, such as 1000")
    if page is not None and (page % SECTOR_BYTES or not SECTOR_BYTES <= page <= MOST_PAGE_BYTES):
        raise UsageError(
            f"--page {page}: not a multiple of {SECTOR_BYTES} bytes up to 1 GiB",
            hint="such as 512 or 4KiB",
        )


def reject_known(
    options: ImportOptions, lacks: list[str], *, name: str, form: str, has_units: bool = False
) -> None:
    """Raise UsageError where the user gives what the format says itself."""
    for option, given in (("--unit", options.units), ("--op", options.operations)):
        if given and not has_units:
            message = f"{name}: {option} {given[0]}: {form} has units and operations of its own"
            raise UsageError(message, hint=f"leave {option} out")
    for what, text in given_of(options).items():
        if what not in lacks:
            message = f"{name}: {text}, and {form} says its {what} itself"
            raise UsageError(message, hint="leave that option out")


def with_one_operation(options: ImportOptions) -> ImportOptions:
    """Return the options with an --op that is of no word as that of all requests."""
    check_given(options)
    alone = [item for item in options.operations if "=" not in item]
    if not alone:
        return options
    if alone[0] not in OPERATIONS:
        user_words(alone)  # says what is wrong
    if len(options.operations) > 1:
        message = f"--op {alone[0]} is of all requests, and another is given"
        raise UsageError(message, hint="give one of them")
    return replace(options, operations=(), operation=alone[0])
