#!/usr/bin/env python3
"""Record block events and those of NVMe and SCSI at once, in a guest of the lab:

    TRACEKIT_LAB=1 python -m tests.import_.recorded.record_drivers FOLDER   # from the root

(copy it to a name that ends in .py first). What it leaves in FOLDER is what is kept here, but for
the events of bios. Both disks of NVMe are QEMU's, one of blocks of 4,096 bytes; sda is scsi_debug.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.lab.guests import share_modules
from tracekit.lab.machine import NvmeDisk
from tracekit.lab.session import Job, session

PACKAGES = ("linux-perf",)
SCRIPT = r"""
set -e
tracing=/sys/kernel/tracing
mount -t tracefs tracefs $tracing 2> /dev/null || true
for module in $LAB_SHARE/modules/*.ko; do
  case $module in
    *scsi_debug*) insmod $module dev_size_mb=64 lbpu=1 lbpws=1 delay=1 max_queue=32 ;;
    *) insmod $module ;;
  esac
done
until [ -e /dev/nvme0n1 ] && [ -e /dev/nvme1n1 ] && [ -e /dev/sda ]; do sleep 0.1; done
sleep 1
ours=$tracing/instances/record
mkdir $ours
echo 16384 > $ours/buffer_size_kb
work() {
  mkfs.ext4 -q -F -b 4096 -J size=4 /dev/$1
  mkdir -p /tmp/p && mount /dev/$1 /tmp/p
  for i in 1 2; do dd if=/dev/zero of=/tmp/p/f$i bs=64k count=4 conv=fsync status=none; done
  sync
  echo 3 > /proc/sys/vm/drop_caches
  cat /tmp/p/f* > /dev/null
  rm /tmp/p/f2
  sync
  fstrim /tmp/p
  umount /tmp/p
  for j in 1 2 3 4; do
    dd if=/dev/$1 of=/dev/null bs=8k count=20 skip=$((j*50)) iflag=direct status=none &
    dd if=/dev/zero of=/dev/$1 bs=4k count=20 seek=$((j*97)) oflag=direct status=none &
  done
  wait
  blkdiscard -f -z -o 1M -l 1M /dev/$1
  blkdiscard -f -o 2M -l 1M /dev/$1
}
events=block:block_rq_issue,block:block_rq_complete,nvme:nvme_setup_cmd,nvme:nvme_complete_rq
events=$events,scsi:scsi_dispatch_cmd_start,scsi:scsi_dispatch_cmd_done
for disk in nvme0n1 nvme1n1 sda; do
  echo > $ours/trace
  for event in block/block_rq_issue block/block_rq_complete block/block_rq_requeue nvme scsi; do
    echo 1 > $ours/events/$event/enable
  done
  work $disk
  echo 0 > $ours/events/enable
  cat $ours/trace > $LAB_OUT/$disk.ftrace.txt
  perf record -q -a -e $events -o /tmp/perf.data -- bash -c "$(declare -f work); work $disk"
  perf script --ns -i /tmp/perf.data > $LAB_OUT/$disk.perf.txt
done
"""


def record(folder: Path) -> None:
    """Leave the texts in the folder."""
    with tempfile.TemporaryDirectory() as share:
        share_modules(Path(share), "scsi_mod", "sd_mod", "scsi_debug", packages=PACKAGES)
        disks = (NvmeDisk(64), NvmeDisk(64, block_bytes=4096))
        job = Job(("bash", "-c", SCRIPT), share=Path(share), packages=PACKAGES, nvme=disks)
        with session(job, on_step=print) as ended:
            shutil.copytree(ended.folder / "files", folder, dirs_exist_ok=True)


if __name__ == "__main__":
    record(Path(sys.argv[1]))
