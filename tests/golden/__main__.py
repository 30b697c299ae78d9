"""Type the session and the guides anew, and keep what they print: `python -m tests.golden`."""

import sys
import tempfile
from pathlib import Path

from tests.golden.session import (
    BLOCK,
    GUIDES,
    README,
    RECORDED,
    Step,
    play,
    same_each_time,
    with_answer,
    with_output,
)


def typed_anew(text: str) -> list[Step]:
    """Return the steps of a session with what they print now."""
    with tempfile.TemporaryDirectory() as folder:
        return play(Path(folder), text)


if __name__ == "__main__":
    if not sys.argv[1:]:
        found = list(map(same_each_time, typed_anew(RECORDED.read_text())))
        README.write_text(with_answer(README.read_text(), found[0]))
        RECORDED.write_text(
            "\n".join(f"$ {step.command}\n{step.output}".rstrip() + "\n" for step in found)
        )
    for guide in GUIDES:
        if not sys.argv[1:] or guide.stem in sys.argv[1:]:
            page = guide.read_text()
            guide.write_text(with_output(page, typed_anew("\n".join(BLOCK.findall(page)))))
