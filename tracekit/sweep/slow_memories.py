"""Kinds of memory that a target may stand for: by two times, or by the name of one below."""

from __future__ import annotations

from collections.abc import Sequence

from tracekit.errors import UsageError
from tracekit.plans.file_plan import MOST_LINE_NS, Medium
from tracekit.units import PS_PER_NS, parse_duration

PS_PER_S = 10**12


def _line_ps(line_bytes: int, gb_s: float) -> int:
    return round(line_bytes * PS_PER_S / (gb_s * 1e9))


def _optane(name: str, read_gb_s: tuple[float, float], write_gb_s: tuple[float, float]) -> Medium:
    """Return Optane with the rates of a thread and of the modules.

    Latencies: Yang et al., FAST 2020, figure 2: a random load, a store past the caches and its
    fence. They say that the medium has lines of 256 bytes.
    """
    return Medium(
        name,
        read_latency_ns=305,
        write_latency_ns=90,
        line_bytes=256,
        read_line_ps=_line_ps(256, read_gb_s[0]),
        read_device_ps=_line_ps(256, read_gb_s[1]),
        write_line_ps=_line_ps(256, write_gb_s[0]),
        write_device_ps=_line_ps(256, write_gb_s[1]),
    )


KINDS = {
    one.name: one
    for one in (
        # Yang et al., FAST 2020, figure 4 (one thread, most of all threads), non-temporal stores:
        # six interleaved modules of 256 GB, and one. A thread fills one module with its stores, so
        # that its own rate is that on six.
        _optane("optane-pmem-100", (2.88, 37.6), (4.13, 12.5)),
        _optane("optane-pmem-100-single", (2.92, 6.52), (4.13, 2.22)),
        # Times of a line as before, 100 ns and 450 ns. Assumed: 16 banks, each busy for that long,
        # and 10 lines under way for a thread.
        Medium(
            "pcm",
            read_latency_ns=100,
            write_latency_ns=450,
            read_line_ps=100 * PS_PER_NS // 10,
            read_device_ps=100 * PS_PER_NS // 16,
            write_line_ps=450 * PS_PER_NS // 10,
            write_device_ps=450 * PS_PER_NS // 16,
        ),
        # DRAM behind CXL. Assumed: 250 ns, 16 lines under way for a thread; one channel of
        # DDR5-4800, 38.4 GB/s, for reads and writes.
        Medium(
            "cxl",
            read_latency_ns=250,
            write_latency_ns=250,
            read_line_ps=250 * PS_PER_NS // 16,
            read_device_ps=_line_ps(64, 38.4),
            write_line_ps=250 * PS_PER_NS // 16,
            write_device_ps=_line_ps(64, 38.4),
        ),
    )
}


def parse_memory(texts: Sequence[str]) -> Medium | None:
    """Return the memory of a name or of two times, None of no text.

    Two times are those of each 64 bytes, read and written, one after the other, without a limit
    that threads share. Raise UsageError for what is no time; a name must be one of KINDS.
    """
    if not texts:
        return None
    if len(texts) == 1:
        return KINDS[texts[0]]
    read_ns, write_ns = (parse_duration(text, option="--target") for text in texts)
    for text, line_ns in zip(texts, (read_ns, write_ns), strict=True):
        if line_ns > MOST_LINE_NS:
            raise UsageError(f"--target: {text} for 64 bytes is more than a millisecond")
    return Medium(
        f"{read_ns}ns:{write_ns}ns",
        read_ns,
        write_ns,
        read_line_ps=read_ns * PS_PER_NS,
        write_line_ps=write_ns * PS_PER_NS,
    )


def describe_memory(kind: Medium) -> str:
    """Return what its times are, in words."""
    read = _way("read", kind.read_latency_ns, kind.read_line_ps, kind.read_device_ps, kind)
    write = _way("written", kind.write_latency_ns, kind.write_line_ps, kind.write_device_ps, kind)
    return f"as the model of {kind.name} says, in lines of {kind.line_bytes} bytes: {read}; {write}"


def _way(does: str, latency_ns: int, line_ps: int, device_ps: int, kind: Medium) -> str:
    def rate(ps: int) -> str:
        return f"{kind.line_bytes * 1000 / ps:.3g} GB/s" if ps else "no limit"

    return f"{does} after {latency_ns} ns, {rate(line_ps)} a thread, {rate(device_ps)} for all"
