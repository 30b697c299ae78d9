"""Prints the events of tests/decode/records.py as other tools print them."""

EVENTS = {
    "Q": "block_bio_queue",
    "G": "block_getrq",
    "I": "block_rq_insert",
    "D": "block_rq_issue",
    "C": "block_rq_complete",
    "R": "block_rq_requeue",
    "M": "block_bio_backmerge",
    "F": "block_bio_frontmerge",
    "X": "block_split",
    "A": "block_bio_remap",
}
FORM = "%T.%9t|%D|%2c|%5p|%2a %3d|%S+%n|%C|%e|%U\\n"
"""A format for `blkparse -f`."""
REQUESTS = {"I": "{bytes} () ", "D": "{bytes} () ", "C": "() ", "R": "() "}


def split_line(line: str) -> dict[str, str]:
    """Return the parts of an event's line by name."""
    time, action, *words = line.split()
    parts = dict(word.split("=", 1) for word in words if "=" in word)
    plain = [word for word in words if "=" not in word]
    sector, _, count = (plain[1] if len(plain) > 1 else "0+0").partition("+")
    parts |= {"time": time, "action": action, "rwbs": plain[0], "sector": sector}
    return {"pid": "1", "cpu": "0", "dev": "7,0", "error": "0", **parts, "count": count or "0"}


def seconds(time_ns: str) -> str:
    return f"{int(time_ns) // 10**9}.{int(time_ns) % 10**9:09}"


def origin(parts: dict[str, str]) -> str:
    device, _, sector = parts["of"].partition(":")
    return f"<- ({device}) {sector}"


def blkparse_line(line: str, number: int) -> str:
    """Return the line as blkparse prints it: places of nothing are left out."""
    parts = split_line(line)
    action, count = parts["action"], parts["count"]
    place = f"{parts['sector']} + {count}" if count != "0" else ""
    match action:
        case "C" | "R":
            rest = f"{place or parts['sector']} [{parts['error']}]"
        case "A":
            rest = f"{place} {origin(parts)}"
        case "X":
            rest = f"{parts['sector']} / {parts['to']} [(null)]"
        case _:
            rest = f"{place} [(null)]"
    head = f"{parts['dev']:>7} {parts['cpu']:>3} {number:>8} {seconds(parts['time']):>14}"
    return f"{head} {parts['pid']:>5} {action:>2} {parts['rwbs']:>3} {rest}\n"


def kernel_line(line: str, *, is_perf: bool, priority: str) -> str:
    """Return the line of perf script, or of ftrace, for the event that makes the kernel trace it.

    Early kernels told no `priority`, and no bytes of requests.
    """
    parts = split_line(line)
    action = parts["action"]
    rwbs = "FF" if parts["rwbs"] == "FN" else parts["rwbs"]
    length_bytes = int(parts["count"]) * 512 if priority else 0
    before = REQUESTS.get(action, "").format(bytes=length_bytes)
    rest = f"{parts['sector']} + {parts['count']}"
    if action == "A":
        rest += f" {origin(parts)}"
    elif action == "X":
        rest = f"{parts['sector']} / {parts['to']} [<...>]"
    else:
        rest += priority if action in REQUESTS else ""
        rest += f" [{parts['error']}]" if action in ("C", "R") else " [<...>]"
    payload = f"{EVENTS[action]}: {parts['dev']} {rwbs} {before}{rest}"
    time = seconds(parts["time"])
    if is_perf:
        return f"a [001] name {parts['pid']} [{int(parts['cpu']):03}] {time}: block:{payload}\n"
    flags = "d..1." if priority else "d..1"
    return f"  a-[b] c-{parts['pid']:<6} [{int(parts['cpu']):03}] {flags} {time}: {payload}\n"


def form_line(line: str) -> str:
    """Return the line as `blkparse -f` prints it in FORM."""
    parts = split_line(line)
    return (
        f"{seconds(parts['time'])}|{parts['dev']:>7}|{parts['cpu']:>2}|{parts['pid']:>5}"
        f"|{parts['action']:>2} {parts['rwbs']:>3}|{parts['sector']}+{parts['count']}|a b|"
        f"{parts['error']}|77\n"
    )
