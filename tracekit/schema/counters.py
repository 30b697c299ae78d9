"""The tables of `tracekit counters`."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import TEXT, field

COUNTERS = pa.schema(
    [
        field("workload", TEXT, meaning="name of the workload"),
        field("run", pa.int32(), meaning="number of the run, from 1"),
        field("source", TEXT, meaning="the command, or the recorded file"),
        field("event", TEXT, meaning="event as perf names it, without a modifier such as :u"),
        field("counted_group", TEXT, meaning="events that were counted together; empty: alone"),
        field(
            "count",
            pa.float64(),
            meaning="as perf gives it: extrapolated where it counted only a part of the time; null:"
            " not counted",
            nullable=True,
        ),
        field("unit", TEXT, meaning="unit of the count, such as msec; empty: events"),
        field(
            "running_ratio",
            pa.float64(),
            meaning="share of the time in which it was counted; below 1 the events took turns",
            nullable=True,
        ),
        field("reason", TEXT, meaning="why it was not counted; empty when it was"),
        field(
            "throughput",
            pa.float64(),
            meaning="of the workload in this run; null: the recorded file does not tell",
            nullable=True,
        ),
        field("throughput_unit", TEXT, meaning="where the throughput is from"),
        field("elapsed_ns", pa.int64(), meaning="of the run; null of a file", nullable=True),
    ]
)

COUNTER_STATISTICS = pa.schema(
    [
        field("workload", TEXT, meaning="name of the workload"),
        field("event", TEXT, meaning="event as in `counters`"),
        field("runs", pa.int32(), meaning="runs in which it was counted"),
        field("mean", pa.float64(), meaning="mean count of a run"),
        field(
            "deviation",
            pa.float64(),
            meaning="standard deviation of the sample; null: one run",
            nullable=True,
        ),
        field(
            "least_running_ratio",
            pa.float64(),
            meaning="least share of the time in which it was counted",
            nullable=True,
        ),
        field(
            "correlation",
            pa.float64(),
            meaning="Pearson's, of count and throughput over the runs; null: below three runs, or"
            " one of both never changed",
            nullable=True,
        ),
        field(
            "correlation_low",
            pa.float64(),
            meaning="lower end of its 95 % interval, by Fisher's z; null: below four runs",
            nullable=True,
        ),
        field("correlation_high", pa.float64(), meaning="upper end of it", nullable=True),
        field(
            "p_value",
            pa.float64(),
            meaning="chance of a correlation as far from 0 where there is none",
            nullable=True,
        ),
        field(
            "rank",
            pa.int32(),
            meaning="1: the most telling event of the workload, whose interval stays farthest"
            " from 0; null: no interval",
            nullable=True,
        ),
    ]
)
