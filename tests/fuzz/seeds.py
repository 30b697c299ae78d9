"""Write the fuzzer's first inputs: every scene of the decoder's tests in every form of the format.

python tests/fuzz/seeds.py
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus" / "decode"
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


if __name__ == "__main__":
    main()
