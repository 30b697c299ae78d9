"""Where data folders are, beside the package or, of a wheel, in it; and what is no path."""

from __future__ import annotations

import os
import re
from pathlib import Path

URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
"""How a URL begins, also one of which a path was made, which has one slash in the place of two."""
PACKAGE = Path(__file__).resolve().parent


def is_url(path: str | os.PathLike[str]) -> bool:
    """Say whether a path is a URL; a folder of this machine that is called so wins."""
    text = os.fspath(path)
    return bool(URL.match(text)) and not os.path.lexists(text.partition("/")[0])


def data_folder(name: str) -> Path:
    """Return the folder `analyzers` or `reports`; a checkout wins over the installed copy."""
    checkout = PACKAGE.parent / name
    return checkout if checkout.is_dir() else PACKAGE / "data" / name
