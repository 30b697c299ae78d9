"""What each device of a stack is for: by its signature, what is mounted and what is swapped to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tracekit.stack.devices import Beside, Node, Stack, Use
from tracekit.stack.mounts import Mount
from tracekit.stack.signatures import MEMBERS, Signature
from tracekit.stack.zfs import PoolPart

Runs = Sequence[tuple[int, int]]
"""First sector and number of sectors of each."""


@dataclass
class Contents:
    """What was found on the devices of a host, by their names."""

    signatures: dict[str, Signature | None] = field(default_factory=dict)
    mounts: dict[str, Mount] = field(default_factory=dict)
    logs_of: dict[str, str] = field(default_factory=dict)
    """The device of the XFS whose log a device is."""
    swaps: set[str] = field(default_factory=set)
    """Devices that are swapped to."""
    swap_files: dict[str, dict[str, Runs]] = field(default_factory=dict)
    """By the device of the file system and the path."""
    unread: dict[str, str] = field(default_factory=dict)
    """Why the content of a device could not be read."""
    doubts: list[str] = field(default_factory=list)
    """What could not be found out, and what to do about it."""
    unplaced: set[str] = field(default_factory=set)
    """Devices of which a doubt says that the places of their blocks are not known."""
    followed: dict[str, str] = field(default_factory=dict)
    """What takes the place of a doubt where remaps of the capture are followed."""
    pools: dict[str, PoolPart] = field(default_factory=dict)
    """What devices are of ZFS pools."""
    sources: dict[str, str] = field(default_factory=dict)
    """Where the place of a journal is known from, where that is no super block."""


def add_pools(contents: Contents, mounts: Sequence[Mount]) -> None:
    """Take what labels say of ZFS pools that no text has, and where the pools are mounted."""
    for name, known in contents.signatures.items():
        if known and known.pool_part:
            contents.pools.setdefault(name, known.pool_part)
    for name, part in contents.pools.items():
        points = [one.point for one in mounts if one.source.partition("/")[0] == part.pool]
        contents.pools[name] = replace(part, mount=points[0] if points else None)


def give_uses(stack: Stack, contents: Contents) -> None:
    """Say of each device what its sectors are for."""
    for node in stack.nodes.values():
        whole = _whole(stack, node, contents)
        node.uses = [whole, *_inner(node, contents, whole)]
    _doubt_order(stack, contents)


def _doubt_order(stack: Stack, contents: Contents) -> None:
    """Say where blocks of several roles have no place that is known, as in a cache or thin pool."""
    roles: dict[str, set[str]] = {}
    pairs = [
        (node, name)
        for node in stack.nodes.values()
        for name, what in node.aside.items()
        if what == Beside.BLOCKS and node.kind != "loop"
    ]
    for node, name in pairs:
        roles[name] = roles.get(name, set()) | stack.roles_on(node)
    shared = dict.fromkeys(node.name for node, name in pairs if len(roles[name]) > 1)
    for above in (name for name in shared if name not in contents.unplaced):
        names = [stack.title(name) for node, name in pairs if node.name == above]
        said = f"where the blocks of {stack.title(above)} lie on {', '.join(names)} is"
        decides = "what requests there do decides"
        doubt = f"{said} not known: {decides} their roles"
        contents.doubts.append(doubt)
        known = "by remaps of those that requests went to"
        contents.followed[doubt] = f"{said} known {known}: {decides} the others' roles"


def _whole(stack: Stack, node: Node, contents: Contents) -> Use:
    signature, mount = contents.signatures.get(node.name), contents.mounts.get(node.name)
    kind, uuid = (signature.kind, signature.uuid) if signature else (None, None)
    part = contents.pools.get(node.name)
    role, evidence = _role(stack, node, contents)
    if node.name in contents.unread and role == "unknown":
        evidence = f"no mount, and {contents.unread[node.name]}"
    return Use(
        role,
        evidence,
        0,
        node.sectors,
        node.title,
        filesystem="zfs" if part else mount.filesystem if mount else kind,
        mount=part.mount if part else mount.point if mount else None,
        uuid=uuid,
        journal_uuid=signature.journal_uuid if signature else None,
    )


def _role(stack: Stack, node: Node, contents: Contents) -> tuple[str, str]:
    """Return the role of a whole device, and the evidence for it."""
    signature, mount = contents.signatures.get(node.name), contents.mounts.get(node.name)
    kind, uuid = (signature.kind, signature.uuid) if signature else ("", None)
    above = stack.held_by(node)
    is_swap, owner = node.name in contents.swaps, contents.logs_of.get(node.name)
    used = "in use" if is_swap else "not in use"
    part = contents.pools.get(node.name)
    journal = _journal_of(contents.signatures, uuid)
    log = f"external log of {owner or 'an XFS'}"
    # What LVM puts on a pool stands for it; its volumes are beside that.
    is_pool = node.kind == "linear" and any(
        stack.nodes[name].kind == "thin-pool" for name in node.below if name in stack.nodes
    )
    holds = f"holds {', '.join(sorted(one.title for one in above))}"
    member = f"{MEMBERS.get(kind)}, UUID {uuid}: nothing on it is active"
    nothing = "no mount, and no signature of a file system, journal or swap"
    found = [
        (above and not mount, "other", holds),
        (is_pool, "other", "thin pool, whose blocks belong to its volumes"),
        (kind == "swap" or is_swap, "swap", f"swap signature, UUID {uuid or '?'}, {used}"),
        (kind == "jbd", "journal", f"{journal}, journal UUID {uuid}"),
        (kind == "xfs_external_log" or owner, "journal", log),
        (mount, "fs", f"{mount.filesystem} mounted on {mount.point}" if mount else ""),
        (part, part.role if part else "", part.evidence if part else ""),
        (kind in MEMBERS, "unknown", member),
        (signature, "fs", f"{kind} super block, UUID {uuid}, not mounted"),
        (True, "unknown", nothing),
    ]
    return next((role, evidence) for is_it, role, evidence in found if is_it)


def _journal_of(signatures: Mapping[str, Signature | None], uuid: str | None) -> str:
    named = signatures.items()
    users = [name for name, other in named if other and other.journal_uuid == uuid]
    return f"external journal of {', '.join(users)}" if users else "external ext4 journal"


def _inner(node: Node, contents: Contents, whole: Use) -> list[Use]:
    """Return what lies inside a file system: its journal or log, and swap files."""
    signature, name = contents.signatures.get(node.name), node.title
    found = []
    if signature is not None and whole.role == "fs":
        what, word, kind = (
            ("log", "log", "xfs log")
            if signature.kind == "xfs"
            else ("extent of the journal inode", "journal", "jbd")
        )
        source = contents.sources.get(node.name, "its super block")
        evidence = f"{what} of the {signature.kind} on {name}, from {source}"
        for first, sectors in signature.journal_extents:
            found.append(Use("journal", evidence, first, sectors, f"{name} {word}", kind))
    for path, runs in contents.swap_files.get(node.name, {}).items():
        evidence = swap_file_evidence(path, name)
        found += [
            Use("swap", evidence, first, sectors, f"{name}:{path}", "swap", swap_file=path)
            for first, sectors in runs
        ]
    return found


def swap_file_evidence(path: str, title: str, *, is_off: bool = False) -> str:
    """Return the evidence of the pieces of a swap file, which may be switched off by now."""
    used = "in use until it was switched off" if is_off else "in use"
    return f"swap file {path} {used}, where FIEMAP has it on {title}"
