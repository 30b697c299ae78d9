"""Lines of strace become rows: threads, joined lines, escapes; what is missing is counted."""

import random
from pathlib import Path

import pytest

from tests.capture.strace_text import (
    FORK,
    THREAD,
    decode_text,
    lines,
    opened,
    sizes_of,
    some,
    wrote,
)
from tracekit._native.calls import Known, Start
from tracekit.errors import InputError


def test_positions_follow_the_open_file_description(tmp_path: Path) -> None:
    # GIVEN a file that is written through a descriptor, its copy and a child's copy
    text = lines(
        opened("a", 0o102),
        wrote(10),
        "dup(3</w/a>) = 4</w/a> <0.000000001>",
        wrote(20, fd=4),
        FORK,
        (101, wrote(5)),
        (101, "close(4</w/a>) = 0 <0.000000001>"),
        (101, "+++ exited with 0 +++"),
        wrote(1),
        "close(3</w/a>) = 0 <0.000000001>",
        "lseek(4</w/a>, -6, 0x1) = 30 <0.000000001>",
        wrote(2, fd=4),
        'pwrite64(4</w/a>, ""..., 7, 100) = 7 <0.000000001>',
        wrote(3, fd=4),
        "close(4</w/a>) = 0 <0.000000001>",
    )
    # WHEN it is decoded
    rows, _ = decode_text(tmp_path, text)
    # THEN all share one position, and only the last close of all is a row
    assert some(rows, "operation", "offset_bytes", "done_bytes", "pid") == [
        ("open", None, None, 100),
        ("write", 0, 10, 100),
        ("write", 10, 20, 100),
        ("write", 30, 5, 101),
        ("write", 35, 1, 100),
        ("write", 30, 2, 100),
        ("write", 100, 7, 100),
        ("write", 32, 3, 100),
        ("close", None, None, 100),
    ]
    assert {row["handle"] for row in rows} == {0}


def test_threads_share_descriptors_and_a_child_may_speak_before_its_birth(tmp_path: Path) -> None:
    # GIVEN a thread whose first line stands before the result of the call that made it
    head, tail = THREAD.split(" =>")
    text = lines(
        opened("a", 0o102),
        head + " <unfinished ...>",
        (101, wrote(4)),
        (101, "close(3</w/a>) = 0 <0.000000001>"),
        f"<... clone3 resumed> =>{tail}",
        opened("b", 0o102),
        (101, wrote(9, "b")),
    )
    rows, found = decode_text(tmp_path, text)
    # THEN it uses and closes what its maker opened, and is of the same process
    assert some(rows, "operation", "path", "offset_bytes", "pid", "tid") == [
        ("open", "/w/a", None, 100, 100),
        ("write", "/w/a", 0, 100, 101),
        ("close", "/w/a", None, 100, 101),
        ("open", "/w/b", None, 100, 100),
        ("write", "/w/b", 0, 100, 101),
    ]
    assert found.stats["orphan_threads"] == 0


def test_rows_stand_in_the_order_of_their_starts(tmp_path: Path) -> None:
    # GIVEN a long sync around which another thread writes
    text = lines(
        opened("a", 0o102),
        THREAD,
        "fsync(3</w/a> <unfinished ...>",
        (101, wrote(1)),
        (101, wrote(2)),
        "<... fsync resumed>) = 0 <0.000005000>",
    )
    rows, found = decode_text(tmp_path, text)
    assert some(rows, "operation_id", "operation", "start_ns", "end_ns") == [
        (0, "open", 0, 100),
        (1, "fsync", 2000, 7000),
        (2, "write", 3000, 3200),
        (3, "write", 4000, 4200),
    ]
    assert found.stats["joined"] == 1


def test_a_descriptor_that_is_being_closed_can_be_given_again(tmp_path: Path) -> None:
    # GIVEN two threads: one's close is on its way while the other gets the same number
    text = lines(
        opened("a", 0o102),
        THREAD,
        wrote(10),
        "close(3</w/a> <unfinished ...>",
        (101, opened("b", 0o102)),
        "<... close resumed>) = 0 <0.000000001>",
        (101, wrote(7, "b")),
        (101, "close(3</w/b>) = 0 <0.000000001>"),
    )
    # WHEN it is decoded
    rows, found = decode_text(tmp_path, text)
    # THEN the first file is closed, and the second one's place is known
    assert some(rows, "operation", "path", "handle", "offset_bytes", "tid") == [
        ("open", "/w/a", 0, None, 100),
        ("write", "/w/a", 0, 0, 100),
        ("close", "/w/a", 0, None, 100),
        ("open", "/w/b", 1, None, 101),
        ("write", "/w/b", 1, 0, 101),
        ("close", "/w/b", 1, None, 101),
    ]
    assert found.stats["adopted"] == found.stats["unplaced"] == 0


def test_exec_closes_and_names(tmp_path: Path) -> None:
    # GIVEN a program that opens two files, one to be closed by exec, and runs another from a thread
    text = lines(
        'execve("/bin/one", [...], 0x7f /* 3 vars */) = 0 <0.000000001>',
        opened("kept", 0, fd=3),
        opened("gone", 0o2000000, fd=4),
        THREAD,
        (101, 'execve("/usr/bin/two", [...], 0x7f /* 3 vars */ <unfinished ...>'),
        "+++ superseded by execve in pid 101 +++",
        "<... execve resumed>) = 0 <0.000000500>",
        'read(3</w/kept>, "", 10) = 0 <0.000000001>',
        'prctl(0xf, "three") = 0 <0.000000001>',
        "fsync(3</w/kept>) = 0 <0.000000001>",
    )
    rows, found = decode_text(tmp_path, text)
    assert some(rows, "operation", "path", "end_ns", "process", "tid") == [
        ("open", "/w/kept", 1100, "one", 100),
        ("open", "/w/gone", 2100, "one", 100),
        ("close", "/w/gone", None, "one", 100),
        ("read", "/w/kept", 7001, "two", 100),
        ("fsync", "/w/kept", 9001, "three", 100),
    ]
    assert found.stats["bad_lines"] == found.stats["orphan_ends"] == 0


def test_odd_names_are_read_as_they_are(tmp_path: Path) -> None:
    # GIVEN names with everything that strace uses as punctuation, escaped as it does
    text = lines(
        r'openat(-100</w>, "a \", = <(1)\n>", 0) = 3</w/a ", = \74(1)\n\76> <0.000000001>',
        r'read(3</w/a ", = \74(1)\n\76>(deleted), ""..., 8) = 8 <0.000000001>',
        r'rename("b/../\303\244", "/x//./y") = 0 <0.000000001>',
        r'unlink("/x/\377") = -1 ENOENT (No such file or directory) <0.000000001>',
        r'openat(5</other/dir>, "deep/er", 0) = 4</other/dir/deep/er> <0.000000001>',
    )
    rows, _ = decode_text(tmp_path, text)
    assert some(rows, "operation", "path", "other", "error") == [
        ("open", '/w/a ", = <(1)\n>', None, 0),
        ("read", '/w/a ", = <(1)\n>', None, 0),
        ("rename", "/w/ä", "/x/y", 0),
        ("unlink", "/x/\\xff", None, 2),
        ("open", "/other/dir/deep/er", None, 0),
    ]


def test_copies_are_a_read_and_a_write(tmp_path: Path) -> None:
    text = lines(
        opened("a", 0, fd=3),
        opened("b", 0o102, fd=4),
        "sendfile(4</w/b>, 3</w/a>, NULL, 100) = 40 <0.000000300>",
        "sendfile(4</w/b>, 3</w/a>, [5] => [15], 10) = 10 <0.000000001>",
        "copy_file_range(3</w/a>, [0] => [8], 4</w/b>, NULL, 9, 0) = 8 <0.000000001>",
        "splice(7<pipe:[12]>, NULL, 4</w/b>, [300] => [306], 6, 0) = 6 <0.000000001>",
    )
    rows, _ = decode_text(tmp_path, text)
    assert some(rows[2:], "operation", "path", "offset_bytes", "length_bytes", "done_bytes") == [
        ("read", "/w/a", 0, 100, 40),
        ("write", "/w/b", 0, 40, 40),
        ("read", "/w/a", 5, 10, 10),
        ("write", "/w/b", 40, 10, 10),
        ("read", "/w/a", 0, 9, 8),
        ("write", "/w/b", 50, 8, 8),
        ("write", "/w/b", 300, 6, 6),
    ]
    assert [row["end_ns"] is None for row in rows[2:]] == [False, True] * 3 + [False]


def test_sizes_before_the_first_operation(tmp_path: Path) -> None:
    # GIVEN files whose sizes the trace tells in every way
    known = (Known(b"/w/known", 1, 70, 2),)
    text = lines(
        'stat("/w/told", {st_mode=0100644, st_size=500, ...}) = 0 <0.000000001>',
        'stat("/w/none", 0x7f) = -1 ENOENT (No such file or directory) <0.000000001>',
        opened("told", 0o2001, fd=3),
        wrote(10, "told"),
        wrote(10, "told"),
        opened("sought", 0o2, fd=4),
        "lseek(4</w/sought>, -1, 0x2) = 299 <0.000000001>",
        opened("short", 0, fd=5),
        'read(5</w/short>, ""..., 4096) = 33 <0.000000001>',
        opened("long", 0, fd=6),
        'pread64(6</w/long>, ""..., 10, 90) = 10 <0.000000001>',
        opened("new", 0o301, fd=7),
        opened("known", 0o2001, fd=8),
        wrote(1, "known", 8),
        'newfstatat(8</w/known>, "", {st_mode=0100644, st_size=71, ...}, 0x1000) = 0 <0.000000001>',
        'mkdir("/w/d", 0755) = 0 <0.000000001>',
        'openat(-100</w>, "/proc/self/maps", 0) = 9</proc/1/maps> <0.000000001>',
    )
    rows, _ = decode_text(tmp_path, text, start=Start("/w", known=known))
    assert sizes_of(tmp_path) == {
        "/w/told": ("file", 500, "stat"),
        "/w/none": ("file", None, "absent"),
        "/w/sought": ("file", 300, "seek"),
        "/w/short": ("file", 33, "end"),
        "/w/long": ("file", 100, "reads"),
        "/w/new": ("file", None, "absent"),
        "/w/known": ("file", 70, "snapshot"),
        "/w/d": ("directory", None, "absent"),
        "/proc/1/maps": ("other", None, "unknown"),
    }
    # AND appended bytes lie where the file ended
    places = [row["offset_bytes"] for row in rows if row["operation"] == "write"]
    assert places == [500, 510, 70]


def test_a_renamed_folder_takes_its_files_along(tmp_path: Path) -> None:
    text = lines(
        'stat("/w/d/f", {st_mode=0100644, st_size=8, ...}) = 0 <0.000000001>',
        'stat("/w/d", {st_mode=040755, st_size=4096, ...}) = 0 <0.000000001>',
        'rename("/w/d", "/w/e") = 0 <0.000000001>',
        opened("e/f", 0o2001),
        wrote(1, "e/f"),
        'rename("/w/e/f", "/w/g") = 0 <0.000000001>',
        opened("g", 0o2001, fd=4),
        wrote(1, "g", 4),
        'rmdir("/w/e") = 0 <0.000000001>',
    )
    rows, _ = decode_text(tmp_path, text)
    assert [row["offset_bytes"] for row in rows if row["operation"] == "write"] == [8, 9]
    assert sizes_of(tmp_path)["/w/e/f"] == ("file", None, "absent")


def test_mappings_are_known_by_their_addresses(tmp_path: Path) -> None:
    text = lines(
        opened("a", 0o2),
        "mmap(NULL, 8192, 0x3, 0x1, 3</w/a>, 0x2000) = 0x10000 <0.000000001>",
        "msync(0x11000, 4096, 0x4) = 0 <0.000000001>",
        "mmap(0x10000, 4096, 0x3, 0x32, -1, 0) = 0x10000 <0.000000001>",
        "munmap(0x10000, 8192) = 0 <0.000000001>",
        "munmap(0x10000, 8192) = 0 <0.000000001>",
    )
    rows, _ = decode_text(tmp_path, text)
    assert some(rows[1:], "operation", "path", "offset_bytes", "length_bytes", "is_sync") == [
        ("mmap", "/w/a", 0x2000, 8192, False),
        ("msync", "/w/a", 0x3000, 4096, True),
        ("munmap", "/w/a", 0x3000, 4096, False),
    ]


def test_a_symbolic_link_has_a_row_and_is_no_plain_file(tmp_path: Path) -> None:
    # GIVEN a link that is made, renamed and removed, and one that could not be made
    text = lines(
        'symlink("some where/a", "/w/l") = 0 <0.000000001>',
        'symlinkat("a, b", -100</w>, "k") = -1 EEXIST (File exists) <0.000000001>',
        opened("a", 0o101),
        'rename("/w/l", "/w/m") = 0 <0.000000001>',
        'unlink("/w/m") = 0 <0.000000001>',
        'symlinkat("a", -100</w>, "n") = 0 <0.000000001>',
        'unlink("/w/n") = 0 <0.000000001>',
    )
    # WHEN it is decoded
    rows, found = decode_text(tmp_path, text)
    # THEN its making is a row, and its names are known for what they are
    assert found.left_out == {}
    named = [(row["operation"], row["path"], row["other"], row["error"]) for row in rows]
    assert named[:7] == [
        ("symlink", "/w/l", None, 0),
        ("symlink", "/w/k", None, 17),
        ("open", "/w/a", None, 0),
        ("rename", "/w/l", "/w/m", 0),
        ("unlink", "/w/m", None, 0),
        ("symlink", "/w/n", None, 0),
        ("unlink", "/w/n", None, 0),
    ]
    kinds = {path: kind for path, (kind, _, _) in sizes_of(tmp_path).items()}
    links = {"/w/l": "other", "/w/m": "other", "/w/n": "other"}
    assert kinds == {"/w/a": "file", "/w/k": "file", **links}
    assert found.stats["bad_lines"] == 0


METADATA_CALLS = (
    opened("a", 0o102),
    'chmod("a", 0600) = 0 <0.000000001>',
    "fchmod(3</w/a>, 0644) = 0 <0.000000001>",
    'fchmodat(5</w/d>, "b", 0640) = -1 ENOENT (No such file or directory) <0.000000001>',
    'fchownat(3</w/a>, "", 0, 0, 0x1000) = 0 <0.000000001>',
    'lchown("/w/c", -1, -1) = -1 EPERM (Operation not permitted) <0.000000001>',
    "utimensat(3</w/a>, NULL, [...], 0) = 0 <0.000000001>",
    'utimensat(-100</w>, "a", NULL, 0) = 0 <0.000000001>',
    "utimensat(-100</w>, NULL, NULL, 0) = -1 EFAULT (Bad address) <0.000000001>",
    'setxattr("a", ""..., ""..., 5, 0) = 0 <0.000000001>',
    'fgetxattr(3</w/a>, ""..., 0x7f54, 128) = -1 ENODATA (No data available) <0.000000001>',
    'lgetxattr("a", ""..., ""..., 128) = 5 <0.000000001>',
    'getxattr("a", ""..., NULL, 0) = 5 <0.000000001>',
    'flistxattr(3</w/a>, ""..., 3) = -1 ERANGE (Numerical result out of range) <0.000000001>',
    'listxattr("a", ""..., 256) = 7 <0.000000001>',
    'removexattr("a", ""...) = 0 <0.000000001>',
    "fchmod(9, 0644) = -1 EBADF (Bad file descriptor) <0.000000001>",
)


def test_calls_on_metadata_have_rows(tmp_path: Path) -> None:
    # GIVEN each form: by path, by a folder and a path, by a descriptor, and by one without a path
    text = lines(*METADATA_CALLS)
    # WHEN it is decoded
    rows, found = decode_text(tmp_path, text)
    # THEN each is a row with its file, its handle, and the bytes of attributes
    names = ("operation", "path", "handle", "length_bytes", "done_bytes", "error")
    assert some(rows[1:], *names) == [
        ("chmod", "/w/a", None, None, None, 0),
        ("chmod", "/w/a", 0, None, None, 0),
        ("chmod", "/w/d/b", None, None, None, 2),
        ("chown", "/w/a", 0, None, None, 0),
        ("chown", "/w/c", None, None, None, 1),
        ("utimens", "/w/a", 0, None, None, 0),
        ("utimens", "/w/a", None, None, None, 0),
        ("setxattr", "/w/a", None, 5, 5, 0),
        ("getxattr", "/w/a", 0, 128, None, 61),
        ("getxattr", "/w/a", None, 128, 5, 0),
        ("getxattr", "/w/a", None, 0, 0, 0),
        ("listxattr", "/w/a", 0, 3, None, 34),
        ("listxattr", "/w/a", None, 256, 7, 0),
        ("removexattr", "/w/a", None, None, None, 0),
    ]
    assert (found.stats["bad_lines"], found.left_out) == (0, {})
    assert sizes_of(tmp_path)["/w/d/b"] == ("file", None, "absent")


def test_a_plain_file_that_mknod_makes_is_a_create(tmp_path: Path) -> None:
    # GIVEN what tar does for a file with attributes, and a pipe with a name
    text = lines(
        'mknodat(-100</w>, "a", 0100600) = 0 <0.000000001>',
        opened("a", 0o101),
        'mknod("p", 010644) = 0 <0.000000001>',
        'mknod("a", 0100600) = -1 EEXIST (File exists) <0.000000001>',
        'unlink("p") = 0 <0.000000001>',
    )
    rows, found = decode_text(tmp_path, text)
    # THEN the file is made by a row without a handle, and the pipe is counted
    names = ("operation", "path", "handle", "is_exclusive", "error")
    assert some(rows[:4], *names) == [
        ("create", "/w/a", None, True, 0),
        ("open", "/w/a", 0, False, 0),
        ("create", "/w/a", None, True, 17),
        ("unlink", "/w/p", None, False, 0),
    ]
    assert found.left_out == {"mknod": 1}
    assert {path: kind for path, (kind, _, _) in sizes_of(tmp_path).items()}["/w/p"] == "other"


def test_a_clone_is_a_copy_of_a_range(tmp_path: Path) -> None:
    # GIVEN a file that is cloned whole and in part, and requests that have no row
    text = lines(
        opened("a", 0o102),
        "fstat(3</w/a>, {st_mode=0100644, st_size=5000, ...}) = 0 <0.000000001>",
        opened("b", 0o102, fd=4),
        "ioctl(4</w/b>, 0x40049409, 3) = 0 <0.000000007>",
        "ioctl(4</w/b>, 0x4020940d, {src_fd=3</w/a>, src_offset=4096, src_length=0,"
        " dest_offset=8192}) = 0 <0.000000001>",
        "ioctl(4</w/b>, 0x40049409, 3) = -1 EOPNOTSUPP (Not supported) <0.000000001>",
        "ioctl(4</w/b>, 0x4020940d, 0x1) = -1 EFAULT (Bad address) <0.000000001>",
        "ioctl(4</w/b>, 0x5401, 0x7f) = -1 ENOTTY (Inappropriate ioctl) <0.000000001>",
        "ioctl(4</w/b>, 0x40086602, 0x7f) = 0 <0.000000001>",
        "io_uring_enter(5, 8, 1, 0x1, NULL, 8) = 8 <0.000000001>",
        "io_uring_enter(5, 2, 1, 0x1, NULL, 8) = -1 EBUSY (Busy) <0.000000001>",
    )
    rows, found = decode_text(tmp_path, text)
    # THEN its rows are those of a copy, the second a part of the first
    names = ("operation", "path", "offset_bytes", "length_bytes", "done_bytes", "error", "end_ns")
    assert some(rows[3:9], *names) == [
        ("read", "/w/a", 0, 5000, 5000, 0, 3007),
        ("write", "/w/b", 0, 5000, 5000, 0, None),
        ("read", "/w/a", 4096, 904, 904, 0, 4001),
        ("write", "/w/b", 8192, 904, 904, 0, None),
        ("read", "/w/a", 0, 5000, None, 95, 5001),
        ("write", "/w/b", 0, 5000, None, 95, None),
    ]
    # AND they and what has no row are counted
    assert (found.stats["cloned"], found.stats["submitted"]) == (2, 8)
    assert found.left_out == {"ioctl FS_IOC_SETFLAGS": 1, "io_uring_enter": 2}
    assert found.stats["bad_lines"] == 0


def test_what_is_not_understood_is_counted(tmp_path: Path) -> None:
    good = [opened("a", 0o102), *[wrote(1)] * 300]
    text = lines(
        *good,
        "io_uring_enter(4<anon_inode:[io_uring]>, 1, 0, 0, NULL, 8) = 1 <0.000000001>",
        'write(3</w/a>, ""...',
        "<... read resumed>) = 5 <0.000000001>",
        'write(9</w/unseen>, ""..., 5) = 5 <0.000000001>',
        'read(0<pipe:[3]>, ""..., 5) = 5 <0.000000001>',
        "fsync(3</w/a> <unfinished ...>",
        (101, "fsync(3</w/a>) = ?"),
    )
    rows, found = decode_text(tmp_path, text)
    stats = found.stats
    assert found.left_out == {"io_uring_enter": 1}
    assert (stats["bad_lines"], stats["first_bad_line"]) == (1, 303)
    assert (stats["orphan_ends"], stats["unfinished"], stats["abandoned"]) == (1, 1, 1)
    assert (stats["adopted"], stats["unplaced"], stats["orphan_threads"]) == (1, 1, 1)
    assert len(rows) == stats["rows"] == 302
    assert (rows[-1]["path"], rows[-1]["offset_bytes"]) == ("/w/unseen", None)


def test_a_descriptor_that_is_copied_to_itself_stays_open(tmp_path: Path) -> None:
    # GIVEN a file whose descriptor is led to itself again and again, which no kernel does
    copied = "fcntl(3</w/a>, 0, 3) = 3 <0.000000001>"
    rows, _ = decode_text(tmp_path, lines(opened("a", 2), *[copied] * 300, wrote(7)))
    # THEN it is the same open file
    assert [(row["operation"], row["handle"]) for row in rows] == [("open", 0), ("write", 0)]


@pytest.mark.parametrize("call", ["unshare(0x400)", "close_range(9, 20, 0x2)"])
def test_a_thread_with_a_table_of_its_own_closes_its_own_descriptors(
    tmp_path: Path, call: str
) -> None:
    # GIVEN two threads, one of which goes on with a copy of their table
    ended = " = 0 <0.000000001>"
    events = ((101, call + ended), (101, "close(3</w/a>)" + ended), wrote(7), wrote(5))
    rows, found = decode_text(tmp_path, lines(opened("a", 2), THREAD, *events))
    # THEN the other one's file is still open, at its place
    assert [(row["operation"], row["offset_bytes"], row["handle"]) for row in rows] == [
        ("open", None, 0),
        ("write", 0, 0),
        ("write", 7, 0),
    ]
    assert found.stats["adopted"] == 0


def test_a_thread_with_a_folder_of_its_own_leaves_it_alone(tmp_path: Path) -> None:
    # GIVEN two threads that share a working directory until one of them wants its own
    calls = ("unshare(0x200)", 'chdir("/elsewhere")', 'mkdir("b", 0777)')
    events = [(101, f"{call} = 0 <0.000000001>") for call in calls]
    rows, _ = decode_text(
        tmp_path, lines('mkdir("a", 0777) = 0 <0.1>', THREAD, *events, 'rmdir("a") = 0 <0.1>')
    )
    assert [row["path"] for row in rows] == ["/w/a", "/elsewhere/b", "/w/a"]


@pytest.mark.parametrize(("request_number", "closes"), [(0x5451, 1), (0x5450, 0)])
def test_an_ioctl_says_whether_exec_closes(
    tmp_path: Path, request_number: int, closes: int
) -> None:
    # GIVEN a descriptor with the other mark at first
    flags = 2 if closes else 0o2000002
    marked = f"ioctl(3</w/a>, {request_number:#x}, 0) = 0 <0.000000001>"
    text = lines(opened("a", flags), marked, 'execve("/bin/x", 0x1, 0x2) = 0 <0.000000001>')
    rows, _ = decode_text(tmp_path, text)
    assert [row["operation"] for row in rows] == ["open", *["close"] * closes]


def test_what_is_mapped_is_known_at_its_new_place(tmp_path: Path) -> None:
    # GIVEN a mapping that is moved and grows, is doubled, shrinks, and goes
    calls = (
        "mmap(NULL, 8192, 0x3, 0x1, 3</w/a>, 0x2000) = 0x10000",
        "mremap(0x10000, 8192, 16384, 0x1) = 0x20000",
        "munmap(0x10000, 8192) = 0",
        "msync(0x21000, 4096, 0x4) = 0",
        "mremap(0x22000, 0, 4096, 0x1) = 0x40000",
        "mremap(0x20000, 16384, 4096, 0x1) = 0x20000",
        "munmap(0x20000, 16384) = 0",
        "mremap(0x90000, 4096, 4096, 0x3, 0x40000) = 0x40000",  # memory of no file, over it
        "munmap(0x40000, 4096) = 0",
    )
    rows, _ = decode_text(tmp_path, lines(opened("a", 2), *(f"{call} <0.1>" for call in calls)))
    seen = [(row["operation"], row["offset_bytes"], row["length_bytes"]) for row in rows[1:]]
    assert seen == [("mmap", 0x2000, 8192), ("msync", 0x3000, 4096), ("munmap", 0x2000, 4096)]


def test_uses_of_what_nothing_names_are_counted(tmp_path: Path) -> None:
    # GIVEN reads of descriptors without a name: one that was open, one that was not
    calls = ('read(9, ""..., 5) = 5 <0.1>', "read(8, 0x1, 5) = -1 EBADF (Bad) <0.1>")
    rows, found = decode_text(tmp_path, lines(opened("a", 0), *calls))
    assert (len(rows), found.stats["unnamed"]) == (1, 1)


def test_a_stat_of_no_path_is_one_of_the_descriptor(tmp_path: Path) -> None:
    text = "statx(3</w/a>, NULL, 0x1000, 0x7ff, {stx_mode=0100644, stx_size=71}) = 0 <0.1>"
    rows, found = decode_text(tmp_path, lines(opened("a", 0), text))
    assert [(row["operation"], row["handle"]) for row in rows] == [("open", 0), ("stat", 0)]
    assert found.stats["bad_lines"] == 0
    assert sizes_of(tmp_path)["/w/a"][1] == 71


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "no call was recorded"),
        (b"hello\nworld\n", "2 of 2 lines .* line 1: 'hello'"),
        (bytes(range(256)) * 40, "lines are not what strace prints"),
        (lines(opened("a", 0)).encode() + b"x\n" * 3, "3 of 4 lines .* line 2: 'x'"),
    ],
)
def test_what_is_no_trace_is_rejected(tmp_path: Path, text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        decode_text(tmp_path, text)


def test_damage_never_ends_in_a_crash(tmp_path: Path) -> None:
    # GIVEN lines of every kind, damaged at random places
    good = lines(
        opened("a", 0o102),
        THREAD,
        (101, wrote(3)),
        'rename("a", "b") = 0 <0.000000001>',
        "fsync(3</w/a> <unfinished ...>",
        (101, "sendfile(3</w/a>, 3</w/a>, [5] => [15], 10) = 10 <0.000000001>"),
        "<... fsync resumed>) = 0 <0.000000001>",
        'newfstatat(3</w/a>, "", {st_mode=0100644, st_size=71, ...}, 0x1000) = 0 <0.000000001>',
        "mmap(NULL, 8192, 0x3, 0x1, 3</w/a>, 0x2000) = 0x10000 <0.000000001>",
        "mremap(0x10000, 8192, 16384, 0x1) = 0x20000 <0.000000001>",
        "fcntl(3</w/a>, 0, 3) = 3 <0.000000001>",
        (101, "unshare(0x600) = 0 <0.000000001>"),
        (101, "close_range(3, 4294967295, 0x2) = 0 <0.000000001>"),
        "close_range(3, 4294967295, 0) = 0 <0.000000001>",
    ).encode()
    chance = random.Random(7)  # noqa: S311 - no secret
    for _ in range(60):
        spoilt = bytearray(good)
        for _ in range(chance.randrange(1, 12)):
            spoilt[chance.randrange(len(spoilt))] = chance.choice(b'0123456789<>"(){}[],=?\\ax\n\0')
        # WHEN they are decoded, THEN it is rows or an error that says why
        try:
            rows, found = decode_text(tmp_path, bytes(spoilt))
        except InputError:
            continue
        assert len(rows) == found.stats["rows"]
        assert [row["start_ns"] for row in rows] == sorted(row["start_ns"] for row in rows)
