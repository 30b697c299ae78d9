"""Whether a certificate says what the files beside it say: all its numbers are computed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from tracekit.errors import InputError, MissingError
from tracekit.metadata import read_object, validate
from tracekit.plans import block_plan
from tracekit.replay.certificate import (
    CERTIFICATE,
    SCHEMA,
    Certificate,
    certify,
    checksum_of,
)
from tracekit.replay.compiler import trace_hash
from tracekit.replay.limits import CERTIFY, Limit
from tracekit.replay.partial_results import PLAN, SUMMARY
from tracekit.replay.summary import PROGRAM, ReplaySummary, read_summary
from tracekit.store import INFO_NAME, TraceFolder

HINT = "ask for it again, or replay again with --certify"
HISTOGRAM_RATIO = 1 / 128
"""By how much a percentile of the program's histograms can be above the exact one."""
OF_THE_MAKER = ("program", "checksum")
"""What is in no other file; the checksum covers it."""


@dataclass(frozen=True)
class CertificateCheck:
    """A certificate and in what it differs from the files beside it; nothing when it holds."""

    file: Path
    certificate: Certificate
    differences: tuple[str, ...]
    values: int
    """That were computed again."""


def verify_certificate(path: Path) -> CertificateCheck:
    """Compute a certificate again from the plan, the completions and the summary beside it.

    `path` is the file or its folder. MissingError for what is not there,
    InputError for what cannot be read.
    """
    file = path / CERTIFICATE if path.is_dir() else path
    if not path.exists():
        raise MissingError(path, hint=HINT)
    content = read_object(file, hint=HINT)
    given = validate(content, Certificate, file=file, hint=HINT)
    limits = _limits(given, file)
    place = file.parent
    summary = read_summary(place / SUMMARY)
    _check_whole(summary, place / SUMMARY)
    trace = _trace_of(place, given)
    found = certify(place, summary, limits=limits, max_idle_ns=given.run.max_idle_ns, trace=trace)
    # As it stands there: what a certificate does not have is a difference, too.
    stated, computed = _flat(content), _flat(to_builtins(found))
    same = {key for key in computed if key.partition(".")[0] in OF_THE_MAKER}
    if trace is None:
        same |= {key for key in computed if key.endswith(".traced")}
    compared = [key for key in dict.fromkeys((*stated, *computed)) if key not in same]
    differences = [
        *_unlike(stated, computed, compared),
        *_contradictions(given, found, summary, place),
        *([] if trace is None else _unlike_trace(given, trace)),
    ]
    return CertificateCheck(file, given, tuple(differences), len(compared))


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return all numbers and texts of JSON by their place, such as `result.measures[0].high`."""
    if isinstance(value, Mapping):
        parts = [(f"{name}.{key}".lstrip("."), part) for key, part in value.items()]
    elif isinstance(value, list):
        parts = [(f"{name}[{number}]", part) for number, part in enumerate(value)]
    else:
        return {name: value}
    return {key: found for place, part in parts for key, found in _flat(part, place).items()}


def _unlike(
    stated: Mapping[str, Any], computed: Mapping[str, Any], keys: Sequence[str]
) -> Iterator[str]:
    for key in keys:
        one, other = stated.get(key), computed.get(key)
        if one != other:
            yield f"{key}: {_shown(one)} in the certificate, {_shown(other)} by the files beside it"


def _shown(value: Any) -> str:
    return "nothing" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _contradictions(
    given: Certificate, found: Certificate, summary: ReplaySummary, place: Path
) -> Iterator[str]:
    """Yield what else of the folder, or of the certificate itself, does not agree."""
    if given.checksum != checksum_of(given):
        yield "checksum: it is that of another certificate"
    if summary.certificate != given.result:
        yield "result: summary.json has another"
    if (planned := block_plan.trace_sha256(place / PLAN)) != given.trace_sha256:
        yield f"trace_sha256: {given.trace_sha256} in the certificate, {planned} in the plan"
    error = summary.issue_error
    if given.run.late == "slip" or given.result.measured_at != PROGRAM or not error:
        return
    for one in found.result.measures:
        own = getattr(error, f"{one.measure.replace('.', '_')}_ns", None)
        if one.observed is not None and isinstance(own, int):
            # Nearest rank, as the largest value of its bucket.
            most = one.observed * (1 + HISTOGRAM_RATIO) + 1
            if not one.observed <= own <= most:
                yield f"{one.measure}: {own:,} ns by the program, {one.observed:,} ns by its rows"


def _trace_of(place: Path, given: Certificate) -> TraceFolder | None:
    """Return the trace in which a replay lies; None elsewhere, or if only a part was replayed."""
    above = place.absolute().parents[1]
    is_counted = any(one.traced is not None for one in given.result.kinds)
    return TraceFolder(above) if is_counted and (above / INFO_NAME).is_file() else None


def _unlike_trace(given: Certificate, trace: TraceFolder) -> Iterator[str]:
    if (source := trace_hash(trace.info).hex()) != given.trace_sha256:
        yield f"trace_sha256: {given.trace_sha256} in the certificate, {source} in trace.json"


def _check_whole(summary: ReplaySummary, file: Path) -> None:
    """Raise InputError for a summary that is not of a run."""
    needed = ("plan", "window", "speed", "clock", "counts", "late", "engine", "machine")
    if missing := [name for name in needed if not getattr(summary, name)]:
        raise InputError(f"{file}: {missing[0]} is missing", hint=HINT)


def _limits(given: Certificate, file: Path) -> dict[str, Limit]:
    """Return the limits of a certificate; InputError for what no certificate has."""
    speed = given.run.speed
    measures = given.result.measures
    units = [(one.measure, one.unit) for one in measures]
    is_known = all(unit in CERTIFY.get(name, ()) for name, unit in units)
    if given.schema != SCHEMA or not is_known or min(speed.numerator, speed.denominator) < 1:
        raise InputError(f"{file} is no certificate of this version", hint=HINT)
    return {one.measure: Limit(one.measure, one.limit, one.unit) for one in measures}
