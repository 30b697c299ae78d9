"""The fitted profile as TOML, in the form that `--profiles` takes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from tracekit.errors import UsageError
from tracekit.printable import printable
from tracekit.profiles import KNOWN, REQUIRED, Profile, choose_profile, load_profiles

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def checked_name(name: str, *, path: Path | None, device: str) -> str:
    """Return the profile's name: as asked, else after the device or the target."""
    if name and not NAME.fullmatch(name):
        raise UsageError(
            f"--name {name!r}: not a profile's name",
            hint="letters, digits, - and _; at most 64",
        )
    told = name or (f"{device}-measured" if device else "" if path is None else path.name)
    return re.sub(r"[^A-Za-z0-9_-]+", "-", told).strip("-")[:64] or "measured"


def complete(
    measured: Mapping[str, float], *, like: str, profiles: Path | None, price_per_gb: float | None
) -> tuple[dict[str, float], list[str], list[str]]:
    """Return a profile's values, which of them are of the profile `like`, and which are missing.

    What is not measured is taken from `like`; without it the price is 1.
    """
    values = {key: value for key, value in measured.items() if key in KNOWN}
    if price_per_gb is not None:
        values["price_per_gb"] = price_per_gb
    base = choose_profile(load_profiles(profiles), like) if like else None
    taken = []
    for key in REQUIRED:
        if key not in values and base is not None:
            values[key] = float(getattr(base, key))
            taken.append(key)
    if base is None:
        values.setdefault("price_per_gb", 1.0)
    return values, taken, [key for key in REQUIRED if key not in values]


def write_profile(file: Path, name: str, *, values: Mapping[str, float], about: str) -> Profile:
    """Write the profile and return it as every command will read it."""
    keys = [key for key in KNOWN if key in values]
    lines = [
        "# Measured by tracekit characterize-device; what each figure is worth is in the table",
        "# device_fit. price_per_gb is not measured. For --profiles of every command.",
        f"[{name}]",
        f"about = {json.dumps(printable(about), ensure_ascii=True)}",
        *(f"{key} = {_number(values[key])}" for key in keys),
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return load_profiles(file)[name]


def _number(value: float) -> str:
    """Write a number with six digits, as TOML has it; a number that is whole stays exact."""
    text = f"{value:.6g}"
    return text if "e" not in text else f"{float(text):.1f}"
