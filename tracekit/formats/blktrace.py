"""blktrace binary captures: what the decoder's problems mean to a user."""

from __future__ import annotations

from tracekit.errors import InputError, TracekitError
from tracekit.native.decode import Place, Problem

KEEP_HINT = "keep the records before that place: tracekit parse --salvage"


def decode_error(place: Place, name: str, *, unit: str = "byte") -> TracekitError:
    """Return the error that tells where and why file `name` cannot be decoded, and what to do.

    Places are counted in bytes, in texts in lines.
    """
    if place.kind == Problem.MEMORY:
        return TracekitError("the decoder has no memory", hint="close other programs and try again")
    text, hint = _explain(place, unit)
    return InputError(f"{name}: {unit} {place.offset}: {text}", hint=hint)


def describe_cut(place: Place, name: str) -> str:
    """Return what was left away by --salvage and why."""
    text, _ = _explain(place, "byte")
    return f"{name} was read up to byte {place.offset} only: {text}"


def _explain(place: Place, unit: str) -> tuple[str, str]:
    value = place.value
    match place.kind:
        case Problem.NOT_A_TRACE:
            text = f"not a blktrace file: it begins with 0x{value:08x}, not with 0x65617407 or ..08"
            hint = (
                "give the binary files NAME.blktrace.CPU of blktrace or of: tracekit capture;"
                " texts of blkparse, perf and ftrace are for: tracekit import"
            )
        case Problem.BAD_MAGIC:
            text = f"no record begins here: 0x{value:08x} in place of the magic 0x656174.."
            hint = f"the file is damaged from here on; copy it again, or {KEEP_HINT}"
        case Problem.BAD_VERSION:
            text = f"a record of blktrace version {value}; versions 7 and 8 are known"
            hint = f"the file is damaged, or its kernel is newer than this tracekit; {KEEP_HINT}"
        case Problem.CUT_HEADER | Problem.CUT_PAYLOAD:
            part = "header" if place.kind == Problem.CUT_HEADER else "payload"
            text = f"the file ends within a record's {part}: {value} bytes of {place.other}"
            hint = f"the capture was cut off; {KEEP_HINT}"
        case Problem.BACKWARDS:
            text = (
                f"time runs backwards by {value} ns, after the record at {unit} {place.other}:"
                " more than a live capture's disorder"
            )
            hint = "give files that were joined one by one, as they were captured"
            hint += f"; or {KEEP_HINT}" if unit == "byte" else ""
        case Problem.VERSIONS:
            text = f"a record of blktrace version {value} follows records of version {place.other}"
            hint = "give the files of one capture only"
        case _:
            text = f"reading failed with error number {value}"
            hint = "check the disk and copy the file again"
    return text, hint
