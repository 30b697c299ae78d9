"""Add the fuzzers' hand-made inputs.

Every scene of the decoder's tests in every form of the format, the recorded texts of events, lines
of the importers' tests, and messages of OCTF.

python -m tests.fuzz.seeds
"""

import lzma
from pathlib import Path

from tests.decode.printed import blkparse_line, form_line
from tests.decode.records import pack
from tests.decode.scenes import SCENES
from tests.fuzz import corpus
from tests.import_ import octf

RECORDED = Path(__file__).parents[1] / "import_" / "recorded"
SEED_BYTES = 3000
ONE_FILE, TWO_FILES, SALVAGE = b"\x00", b"\x01", b"\x80"
Seeds = dict[str, bytes]


def main() -> None:
    made = {"decode": decode(), "texts": texts(), "columns": columns(), "octf": messages()}
    for target, seeds in made.items():
        corpus.add(target, {f"seed-{name}": data for name, data in seeds.items()})


def decode() -> Seeds:
    seeds = {}
    for name, text in SCENES.items():
        seeds[f"{name}-v7"] = ONE_FILE + pack(text)
        seeds[f"{name}-v8"] = ONE_FILE + pack(text, version=8)
        seeds[f"{name}-swapped"] = ONE_FILE + pack(text, order=">")
    joined = pack("".join(SCENES.values()))
    seeds["two-files"] = TWO_FILES + pack(SCENES["plain"]) * 2
    seeds["cut"] = SALVAGE + joined[:-7]
    return seeds


def texts() -> Seeds:
    scenes = [line for line in SCENES["back_merge"].splitlines() if line]
    printed = "".join(blkparse_line(line, number) for number, line in enumerate(scenes))
    recorded = {
        path.name.partition(".")[0]: b"\x80" + lzma.decompress(path.read_bytes())[:SEED_BYTES]
        for path in RECORDED.glob("*.txt.xz")
    }
    forms = "".join(map(form_line, scenes))
    return recorded | {"blkparse": b"\x80" + printed.encode(), "form": b"\x01" + forms.encode()}


def columns() -> Seeds:
    lines = b"7,1.25,read,disk 1,0.5\n8,2,WRITE,b,\n\n9,3.,x,b,1\r\n"
    dates = b"2020-02-29T23:59:60.5+02:00,a name,7,x,1999/12/31 00:00:00 UTC\n"
    dates += b"2020-01-01 00:00:00Z,kworker/0:1 (x) y,0x7,w,2115-12-31t23:59:59\n2020-13-01,a,7,x\n"
    return {
        "commas": b"\x00" + lines,
        "blanks": b"\x02" + lines.replace(b",", b" "),
        "points": b"\x0f1.5;01;any;word;7;more\n2.;1;;w;8\n",
        "dates": b"\x10" + dates,
        "names": b"\x12" + dates.replace(b",", b" "),
    }


def messages() -> Seeds:
    plain = octf.described(1, 1, device=1, name="sda", sectors=1 << 20)
    for n in range(20):
        plain += octf.io(10 + n, 2 + 2 * n, number=n + 1, lba=8 * n)
        plain += octf.done(15 + n, 3 + 2 * n, number=n + 1, lba=8 * n)
    begun = (octf.io(10 + n, 0, number=0, lba=8 * (n % 3), flags=(6, 7)) for n in range(90))
    ended = (octf.done(500 + n, 0, number=0, lba=8 * (n % 3), error=n % 2 > 0) for n in range(30))
    others = octf.event(5, 1, octf.FILE_META, {1: 7, 2: 8}) + octf.event(6, 2, 9, {1: 1})
    return {
        "plain": b"\x80" + plain,
        "without-numbers": b"\x00" + b"".join((*begun, *ended)),
        "two-files": b"\x01" + plain * 2,
        "cut": b"\x00" + plain[:-3],
        "others": b"\x00" + others + plain,
    }


if __name__ == "__main__":
    main()
