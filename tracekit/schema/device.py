"""The tables of `tracekit characterize-device`."""

from __future__ import annotations

import pyarrow as pa

from tracekit.schema.field import TEXT, field

DEVICE_STEPS = pa.schema(
    [
        field("step", pa.int32(), meaning="number of the step, in order of measuring"),
        field(
            "kind",
            TEXT,
            meaning="fill, precondition, random_write, random_read, size, sequential, flush, fua or"
            " surface",
        ),
        field("write_ratio", pa.float64(), meaning="share of the requests that were to write"),
        field("depth", pa.int32(), meaning="requests in flight"),
        field("length_bytes", pa.int64(), meaning="length of each read and write"),
        field("operation", TEXT, meaning="read, write or flush; all for the step as a whole"),
        field("requests", pa.int64(), meaning="requests that were done"),
        field("failed", pa.int64(), meaning="requests that failed; in no latency"),
        field("elapsed_ns", pa.int64(), meaning="of the step, first submission to last completion"),
        field("iops", pa.float64(), meaning="requests done a second of elapsed_ns"),
        field(
            "usual_iops",
            pa.float64(),
            meaning="rate that a quarter of the step's parts of 50 requests or more exceed, which"
            " pauses do not change; null for one operation of several",
            nullable=True,
        ),
        field("mean_ns", pa.float64(), meaning="latency, submission to completion: mean"),
        field("deviation_ns", pa.float64(), meaning="its standard deviation, of the sample"),
        field("min_ns", pa.int64(), meaning="the shortest"),
        field("p50_ns", pa.int64(), meaning="nearest rank in buckets of 128 an octave"),
        field("p99_ns", pa.int64(), meaning="as p50_ns"),
        field("p99_9_ns", pa.int64(), meaning="as p50_ns"),
        field("max_ns", pa.int64(), meaning="the longest"),
    ]
)

DEVICE_LATENCY = pa.schema(
    [
        field("step", pa.int32(), meaning="step of `device_steps`"),
        field("kind", TEXT, meaning="random_write or random_read"),
        field("operation", TEXT, meaning="read or write"),
        field("low_ns", pa.int64(), meaning="shortest latency that the bucket can hold"),
        field("high_ns", pa.int64(), meaning="the first that is in it no more"),
        field("requests", pa.int64(), meaning="requests in the bucket"),
        field("requests_ratio", pa.float64(), meaning="share of the step's requests"),
    ]
)

DEVICE_FIT = pa.schema(
    [
        field("parameter", TEXT, meaning="key of the device profile, or a figure beside it"),
        field("value", pa.float64(), meaning="as measured, in the unit of the key's name"),
        field(
            "spread_ratio",
            pa.float64(),
            meaning="how far off it may be: standard error of a mean, or the mean"
            " distance of the measurements from the fit; relative; null: not known",
            nullable=True,
        ),
        field(
            "known_value",
            pa.float64(),
            meaning="what an emulated device has; null for a real one",
            nullable=True,
        ),
        field(
            "error_ratio",
            pa.float64(),
            meaning="(value - known_value) / known_value; null without one",
            nullable=True,
        ),
        field("is_in_profile", pa.bool_(), meaning="whether the profile that was written has it"),
    ]
)
