# Functions of the guest that types commands: what is set up before them, and what is there after.
set -eE
trap 'echo "failed: $BASH_COMMAND" >&2' ERR
failed() {
  echo "failed: $*" >&2
  exit 1
}
export DM_DISABLE_UDEV=1
for module in $LAB_SHARE/modules/*; do
  case $module in
  *-brd.ko) busybox insmod $module rd_nr=2 rd_size=393216 ;;
  *) busybox insmod $module || true ;;
  esac
done
mkdir -p /etc/lvm /mnt/old /mnt/new /backup
cd /tmp  # xfsrestore wants a folder where it can write
[ -e /etc/mtab ] || ln -s /proc/self/mounts /etc/mtab
cat > /etc/lvm/lvm.conf <<LVM
activation { udev_sync=0 udev_rules=0 monitoring=0 verify_udev_operations=0 }
devices { use_devicesfile=0 obtain_device_list_from_udev=0 scan=["/dev"] filter=["a|^/dev/ram[01]$|", "r|.*|"] }
global { use_lvmpolld=0 event_activation=0 }
backup { backup=0 archive=0 }
LVM

# All modules are there, and /lib/modules is not.
modprobe() { :; }

# Registers what it made, as the rules of udev do.
make-bcache() {
  command make-bcache "$@"
  for device in /dev/ram0 /dev/ram1; do echo $device > /sys/fs/bcache/register; done
  until [ -b /dev/bcache0 ]; do sleep 0.1; done
}

fill() {
  for number in 1 2 3 4 5; do head -c 1000000 /dev/urandom > /mnt/old/$number; done
  (cd /mnt/old && sha256sum *) > /tmp/sums
}

has_all() { (cd $1 && sha256sum --quiet -c /tmp/sums); }

log_is_inside() {
  mkfs.xfs -q -f /dev/ram1
  mount /dev/ram1 /mnt/old
  fill
}

log_is_outside() {
  has_all /mnt/old
  findmnt -no OPTIONS /mnt/old | grep -q logdev=/dev/ram0
}

log_is_back() {
  has_all /mnt/old
  if findmnt -no OPTIONS /mnt/old | grep -q logdev; then return 1; fi
  umount /mnt/old
  fill
}

no_cache_yet() {
  echo "tracekit: the next cache" > /dev/console
  for device in /dev/ram0 /dev/ram1; do dd if=/dev/zero of=$device bs=1M count=16 status=none; done
}

state_of() {  # MAKER: the kind of cache that is in use
  case $1 in
  bcache) sed 's/.*\[write\(.*\)\].*/\1/' /sys/block/bcache0/bcache/cache_mode ;;
  lvm) echo $(lvs --noheadings -o segtype,cache_mode nvmcache/data) ;;
  esac
}

is_cached() {  # MAKER MODE
  has_all /mnt/new
  case "$1 $(state_of $1)" in
  "bcache $2" | "lvm cache $2" | "lvm $2"*) ;;
  *) echo "$1 $2: $(state_of $1)" >&2; return 1 ;;
  esac
}

is_uncached() {  # MAKER MODE
  if [ $1 = bcache ]; then
    until [ "$(cat /sys/block/bcache0/bcache/state)" = "no cache" ]; do sleep 0.1; done
  else
    [ "$(state_of lvm)" = linear ]
    if pvs /dev/ram0 > /dev/null 2>&1; then return 1; fi
  fi
  has_all /mnt/new
  umount /mnt/new
  if [ $1 = bcache ]; then
    echo 1 > /sys/block/bcache0/bcache/stop
    for set in /sys/fs/bcache/*-*; do echo 1 > $set/stop; done
    while [ -b /dev/bcache0 ] || ls -d /sys/fs/bcache/*-* > /dev/null 2>&1; do sleep 0.1; done
  else
    vgremove -q -ff --yes nvmcache
    pvremove -q /dev/ram1
  fi
}

zram_is() {  # Y or N
  [ "$(swapon --show=NAME,PRIO --noheadings --raw)" = "$(if [ $1 = Y ]; then echo /dev/zram0 200; fi)" ]
}

zswap_is() { [ "$(cat /sys/module/zswap/parameters/enabled)" = $1 ]; }
