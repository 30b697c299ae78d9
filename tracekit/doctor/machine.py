"""What this machine and this user may do: permissions, counters, loop devices, KVM."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from tracekit.doctor.check import Check, Finding, Group, missing_program, run

CAP_SYS_ADMIN = 21
KVM_GET_API_VERSION = 0xAE00
KVM_CREATE_VM = 0xAE01
KVM_CREATE_VCPU = 0xAE41
KVM_API_VERSION = 12
HARDWARE_EVENTS = ("cycles", "instructions", "cache-misses", "dTLB-load-misses")
SOFTWARE_EVENTS = ("page-faults", "context-switches")


def administrator() -> Finding:
    """Read the effective capabilities of this process."""
    status = Path("/proc/self/status").read_text()
    mask = int(status.partition("CapEff:")[2].split()[0], 16)
    who = f"user id {os.geteuid()}"
    if not mask >> CAP_SYS_ADMIN & 1:
        return Finding("missing", f"{who}, without CAP_SYS_ADMIN", "use sudo for capture")
    return Finding("ok", f"{who}, with CAP_SYS_ADMIN")


def paranoia() -> Finding:
    """Read how much perf allows to users without privileges."""
    level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    detail = f"kernel.perf_event_paranoid is {level}"
    if level > 1 and os.geteuid() != 0:
        return Finding("limited", detail, "sysctl kernel.perf_event_paranoid=1, or use sudo")
    return Finding("ok", detail)


def counters() -> Finding:
    """Count events of a short run with perf; name those that this machine cannot count."""
    found = missing_program("perf", "linux-perf")
    if found:
        return found
    events = (*HARDWARE_EVENTS, *SOFTWARE_EVENTS)
    ran = run("perf", "stat", "-x", ";", "-e", ",".join(events), "--", "true")
    if ran.status != 0:
        return Finding("broken", f"perf stat: {ran.first_complaint}")
    counted = set()
    for line in ran.complaint.splitlines():
        fields = line.split(";")
        if len(fields) > 2 and fields[0].replace(".", "").isdigit():
            counted.add(fields[2].partition(":")[0])
    lacking = [event for event in events if event not in counted]
    if lacking:
        remedy = "a virtual machine often has none: run on the hardware, or pass the PMU through"
        return Finding("limited", f"cannot count: {', '.join(lacking)}", remedy)
    return Finding("ok", f"counts {', '.join(events)}")


def loop_devices() -> Finding:
    """Attach a small file to a loop device and detach it."""
    if os.geteuid() != 0:
        return Finding("missing", "not tried: needs root", "run: sudo tracekit doctor")
    with tempfile.NamedTemporaryFile(prefix="tracekit-doctor-") as image:
        image.truncate(1 << 20)
        attached = run("losetup", "--find", "--show", "--read-only", image.name)
        if attached.status != 0:
            return Finding("broken", attached.first_complaint, "modprobe loop")
        device = attached.output.strip()
        detached = run("losetup", "--detach", device)
    if detached.status != 0:
        return Finding("broken", f"{device} stays attached: {detached.first_complaint}")
    return Finding("ok", f"attached and detached {device}")


def kvm() -> Finding:
    """Create a virtual machine with one CPU, and drop it."""
    try:
        device = os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        remedy = "enable virtualization, and join the group kvm"
        return Finding("missing", f"/dev/kvm: {error.strerror}", remedy)
    try:
        if fcntl.ioctl(device, KVM_GET_API_VERSION) != KVM_API_VERSION:
            return Finding("broken", "/dev/kvm speaks another version")
        machine = fcntl.ioctl(device, KVM_CREATE_VM, 0)
        try:
            os.close(fcntl.ioctl(machine, KVM_CREATE_VCPU, 0))
        finally:
            os.close(machine)
    except OSError as error:
        return Finding("broken", f"no virtual CPU: {error.strerror}", "QEMU emulates instead")
    finally:
        os.close(device)
    return Finding("limited", "a virtual CPU can be created; no guest was started")


def lab() -> Finding:
    """Look for QEMU and for the image that guests are booted from."""
    from tracekit.lab.build import find_image, reason_not_to_run

    reason = reason_not_to_run()
    if reason:
        what, _, remedy = reason.partition(": ")
        return Finding("missing", what, remedy)
    image = find_image()
    if not image.is_built:
        return Finding("limited", "QEMU is there, no image is built", "run: tracekit lab build")
    return Finding("ok", f"image {image.folder}")


MACHINE = Group(
    "Permissions and machine",
    (
        Check("administrator", "capture, loop devices", administrator),
        Check("perf permission", "hardware counters beside a run", paranoia),
        Check("hardware counters", "hardware counters beside a run", counters),
        Check("loop devices", "making sample traces", loop_devices),
        Check("KVM", "guests for captures that a host should not see", kvm),
        Check("VM lab", "guests for captures that a host should not see", lab),
    ),
)
