"""The structures of `replayer/workload/workload.h`, as ctypes lays them out."""

from __future__ import annotations

import ctypes

U8, U16, U32, U64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
F64, POINTER = ctypes.c_double, ctypes.c_void_p


class Dist(ctypes.Structure):
    """A distribution; its tables belong to the caller."""

    _fields_ = [
        ("kind", U32),
        ("count", U32),
        ("scale", F64),
        ("shape", F64),
        ("values", POINTER),
        ("up_to", POINTER),
    ]


class Arrival(ctypes.Structure):
    """When requests come."""

    _fields_ = [
        ("gap", Dist),
        ("off", Dist),
        ("burst", Dist),
        ("correlation", F64),
        ("has_bursts", U32),
        ("phase_count", U32),
        ("phase_ns", POINTER),
        ("phase_rates", POINTER),
    ]


class Place(ctypes.Structure):
    """Where runs begin."""

    _fields_ = [
        ("kind", U32),
        ("count", U32),
        *((name, U64) for name in ("first_sector", "sectors", "align_sectors")),
        ("block_sectors", U64),
        ("key", U64),
        ("exponent", F64),
        ("blocks_to", POINTER),
        ("requests_to", POINTER),
        ("reuse_ratio", F64),
        ("distance", Dist),
        ("most_places", U64),
    ]


class Follow(ctypes.Structure):
    """How requests follow each other."""

    _fields_ = [
        ("mode", U32),
        ("is_used", U32),
        ("back_from", U64),
        ("back_to", U64),
        ("circle_first", U64),
        ("circle_sectors", U64),
    ]


class Class(ctypes.Structure):
    """A kind of requests of a stream."""

    _fields_ = [
        ("share_to", F64),
        ("size", Dist),
        ("run", Dist),
        ("follow", Follow),
        ("then", POINTER),
        *((name, U32) for name in ("has_runs", "size_unit", "size_least", "size_most")),
        ("operation", U8),
        ("flags", U8),
        ("unused", U8 * 6),
        ("place", Place),
    ]


class Seed(ctypes.Structure):
    """What a generator starts from."""

    _fields_ = [("state", U64 * 2), ("increment", U64 * 2)]


class Stream(ctypes.Structure):
    """An arrival and its kinds of requests."""

    _fields_ = [
        ("arrival", Arrival),
        ("classes", ctypes.POINTER(Class)),
        ("class_count", U32),
        ("unused", U32),
        ("arrival_seed", Seed),
        ("seed", Seed),
    ]
