"""What a file is by its first bytes, where it is no trace as it stands but holds or becomes one."""

from __future__ import annotations

from tracekit.errors import InputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLKTRACE = {bytes(order) for version in (7, 8) for order in (
    [version, 0x74, 0x61, 0x65], [0x65, 0x61, 0x74, version])}  # fmt: skip
UNPACK = "unpack it, and import the file in it"
OTHERS = (
    (0, b"PK\x03\x04", "a zip archive", UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK),
    (0, b"Rar!", "a rar archive", UNPACK),
    (257, b"ustar", "a tar archive", "import the file in it: tar -xOf FILE | tracekit import -"),
    (0, b"\x04\x22\x4d\x18", "compressed by lz4", "run: lz4 -dc FILE | tracekit import -"),
    (0, b"\x1f\x9d", "compressed by compress", "run: zcat FILE | tracekit import -"),
    (0, b"PERFILE2", "a recording of perf", "run: perf script --ns -i FILE | tracekit import -"),
    (0, b"\x17\x08\x44tracing", "a recording of trace-cmd",
     "run: trace-cmd report FILE | tracekit import -"),
    (0, b"PAR1", "a Parquet file", "write it as CSV, and name the columns with --columns"),
    (0, b"SQLite format 3\0", "a database", "write a table as CSV, and name its --columns"),
    (0, b"\xff\xfe", "a text in UTF-16", "run: iconv -f UTF-16 -t UTF-8 FILE | tracekit import -"),
    (0, b"\xfe\xff", "a text in UTF-16", "run: iconv -f UTF-16 -t UTF-8 FILE | tracekit import -"),
)  # fmt: skip
"""Place and bytes of the sign, what the file is, and what to do with it."""
PRINTABLE = bytes(range(32, 127)) + b"\t\r\n"
FEWEST_LETTERS = 32
UTF16 = [f"run: iconv -f UTF-16{end} -t UTF-8 FILE | tracekit import -" for end in ("LE", "BE")]
"""Without a mark: of which order the text is, by the place of its letters."""


def readable_head(head: bytes, name: str) -> bytes:
    """Return a file's first bytes without a mark of UTF-8; raise InputError for what must be made
    readable first.
    """
    for place, sign, what, hint in OTHERS:
        if head[place:].startswith(sign):
            raise InputError(f"{name}: {what}, not the trace itself", hint=hint)
    for first, other in ((0, 1), (1, 0)):
        if len(head) >= FEWEST_LETTERS and not any(head[other::2]) and _is_text(head[first::2]):
            raise InputError(f"{name}: a text in UTF-16, not the trace itself", hint=UTF16[first])
    if b"\n" not in head and b"\r" in head and _is_text(head):
        hint = "run: tr '\\r' '\\n' < FILE | tracekit import -"
        raise InputError(f"{name}: its lines end with CR alone", hint=hint)
    return head.removeprefix(BYTE_ORDER_MARK)


def _is_text(head: bytes) -> bool:
    return not head.strip(PRINTABLE)


def is_blktrace(head: bytes) -> bool:
    """Say whether a file that begins so is a capture of blktrace, of either byte order."""
    return head[:4] in BLKTRACE
