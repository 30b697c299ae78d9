"""Write the fuzzer's first inputs: every scene of the decoder's tests in every form of the format,
the recorded texts of events, lines of the importers' tests, and
messages of OCTF.

python tests/fuzz/seeds.py
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus" / "decode"
TEXTS, COLUMNS = CORPUS.with_name("texts"), CORPUS.with_name("columns")
OCTF = CORPUS.with_name("octf")
RECORDED = ROOT / "tests" / "import_" / "recorded"
SEED_BYTES = 3000
ONE_FILE, TWO_FILES, SALVAGE = b"\x00", b"\x01", b"\x80"


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests.decode.records import pack
    from tests.decode.scenes import SCENES

    CORPUS.mkdir(parents=True, exist_ok=True)
    for name, text in SCENES.items():
        (CORPUS / f"seed-{name}-v7").write_bytes(ONE_FILE + pack(text))
        (CORPUS / f"seed-{name}-v8").write_bytes(ONE_FILE + pack(text, version=8))
        (CORPUS / f"seed-{name}-swapped").write_bytes(ONE_FILE + pack(text, order=">"))
    joined = pack("".join(SCENES.values()))
    (CORPUS / "seed-two-files").write_bytes(TWO_FILES + pack(SCENES["plain"]) * 2)
    (CORPUS / "seed-cut").write_bytes(SALVAGE + joined[:-7])
    write_texts()
    write_columns()
    write_octf()


def write_texts() -> None:
    from tests.decode.printed import blkparse_line, form_line
    from tests.decode.scenes import SCENES

    TEXTS.mkdir(parents=True, exist_ok=True)
    for path in RECORDED.glob("*.txt.xz"):
        lines = lzma.decompress(path.read_bytes())[:SEED_BYTES]
        (TEXTS / f"seed-{path.name.partition('.')[0]}").write_bytes(b"\x80" + lines)
    scenes = [line for line in SCENES["back_merge"].splitlines() if line]
    printed = "".join(blkparse_line(line, number) for number, line in enumerate(scenes))
    (TEXTS / "seed-blkparse").write_bytes(b"\x80" + printed.encode())
    formed = "".join(map(form_line, scenes))
    (TEXTS / "seed-form").write_bytes(b"\x01" + formed.encode())


def write_columns() -> None:
    COLUMNS.mkdir(parents=True, exist_ok=True)
    lines = b"7,1.25,read,disk 1,0.5\n8,2,WRITE,b,\n\n9,3.,x,b,1\r\n"
    (COLUMNS / "seed-commas").write_bytes(b"\x00" + lines)
    (COLUMNS / "seed-blanks").write_bytes(b"\x02" + lines.replace(b",", b" "))
    (COLUMNS / "seed-points").write_bytes(b"\x0f1.5;01;any;word;7;more\n2.;1;;w;8\n")
    dates = b"2020-02-29T23:59:60.5+02:00,a name,7,x,1999/12/31 00:00:00 UTC\n"
    dates += b"2020-01-01 00:00:00Z,kworker/0:1 (x) y,0x7,w,2115-12-31t23:59:59\n2020-13-01,a,7,x\n"
    (COLUMNS / "seed-dates").write_bytes(b"\x10" + dates)
    (COLUMNS / "seed-names").write_bytes(b"\x12" + dates.replace(b",", b" "))


def write_octf() -> None:
    from tests.import_ import octf

    OCTF.mkdir(parents=True, exist_ok=True)
    plain = octf.described(1, 1, device=1, name="sda", sectors=1 << 20)
    for n in range(20):
        plain += octf.io(10 + n, 2 + 2 * n, number=n + 1, lba=8 * n)
        plain += octf.done(15 + n, 3 + 2 * n, number=n + 1, lba=8 * n)
    begun = (octf.io(10 + n, 0, number=0, lba=8 * (n % 3), flags=(6, 7)) for n in range(90))
    ended = (octf.done(500 + n, 0, number=0, lba=8 * (n % 3), error=n % 2 > 0) for n in range(30))
    others = octf.event(5, 1, octf.FILE_META, {1: 7, 2: 8}) + octf.event(6, 2, 9, {1: 1})
    (OCTF / "seed-plain").write_bytes(b"\x80" + plain)
    (OCTF / "seed-without-numbers").write_bytes(b"\x00" + b"".join((*begun, *ended)))
    (OCTF / "seed-two-files").write_bytes(b"\x01" + plain * 2)
    (OCTF / "seed-cut").write_bytes(b"\x00" + plain[:-3])
    (OCTF / "seed-others").write_bytes(b"\x00" + others + plain)


if __name__ == "__main__":
    main()
