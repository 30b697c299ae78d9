"""Where the data folders are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def data_folder(name: str) -> Path:
    """Return the folder `analyzers` or `reports`; a checkout wins over the installed copy."""
    checkout = PACKAGE.parent / name
    return checkout if checkout.is_dir() else PACKAGE / "data" / name
