"""Type the recorded session anew and keep what it prints: `python -m tests.golden`."""

import tempfile
from pathlib import Path

from tests.golden.session import RECORDED, played

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        found = played(Path(folder))
    RECORDED.write_text(
        "\n".join(f"$ {step.command}\n{step.output}".rstrip() + "\n" for step in found)
    )
