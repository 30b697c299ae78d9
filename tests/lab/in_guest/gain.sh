# Functions of the guests that capture applications, or carry scripts out and run them again.
set -e
export DM_DISABLE_UDEV=1 FSTAB=/tmp/fstab
configured=/sys/kernel/config/nullb
for module in $LAB_SHARE/modules/*; do busybox insmod $module || true; done
mkdir -p /etc/lvm /mnt/app
cat > /etc/lvm/lvm.conf <<LVM
activation { udev_sync=0 udev_rules=0 monitoring=0 verify_udev_operations=0 }
devices { types=["nullb", 16] use_devicesfile=0 obtain_device_list_from_udev=0 scan=["/dev"] filter=["a|^/dev/(base|nvm)$|", "r|.*|"] }
global { use_lvmpolld=0 event_activation=0 }
backup { backup=0 archive=0 }
LVM

make_disk() {  # NAME NS DEPTH CACHE_MIB: a disk in memory that answers each request so long after
  mkdir $configured/$1
  echo 112 > $configured/$1/size
  echo 1 > $configured/$1/memory_backed
  echo 4096 > $configured/$1/blocksize
  echo 2 > $configured/$1/irqmode
  echo $2 > $configured/$1/completion_nsec
  echo $3 > $configured/$1/hw_queue_depth
  echo $4 > $configured/$1/cache_size
  echo 1 > $configured/$1/power
  # What was never written takes longer to write: its memory is looked for then.
  dd if=/dev/zero of=/dev/$1 bs=1M oflag=direct 2> /dev/null || true
}

install_database() {  # DEVICE: a file system with its journal in it, and a database
  mke2fs -q -F -t ext4 -b 4096 -J size=8 -U 11111111-2222-3333-4444-555555555555 \
    -E lazy_itable_init=0,lazy_journal_init=0,hash_seed=11111111-2222-3333-4444-555555555555 $1
  mount $1 /mnt/app
  python3 $LAB_SHARE/application.py install /mnt/app/db
}

make_volume() {  # DISK: a logical volume
  pvcreate -q /dev/$1
  vgcreate -q -s 1M group /dev/$1
  lvcreate -q --yes -Wn -Zn -L 64M -n volume group
  traced=dm-0
}

set_up() {  # KIND DEPTH: what the application stands on; says which device is traced
  cache_mib=0
  if [ $1 = synced ]; then cache_mib=64; fi
  make_disk base 1000000 1 $cache_mib
  make_disk nvm 20000 $2 0
  application="python3 $LAB_SHARE/application.py run /mnt/app/db" traced=base
  case $1 in
  device) application="python3 $LAB_SHARE/application.py measure /dev/nvm" traced=nvm ;;
  mapped)
    make_volume nvm
    application="python3 $LAB_SHARE/application.py measure /dev/group/volume" ;;
  files) install_database /dev/base ;;
  volume | synced)
    make_volume base
    install_database /dev/group/volume ;;
  swap)
    mkswap /dev/base
    swapon -p 1 /dev/base
    application="python3 $LAB_SHARE/application.py page" ;;
  esac
}

capture() {  # NAME DISK...: the application, traced from a cold start
  name=$1 words=
  shift
  echo "tracekit: $name" > /dev/console
  mkdir $LAB_OUT/$name
  for disk in "$@"; do words="$words -d /dev/$disk"; echo /dev/$disk; done > $LAB_OUT/$name.disks
  sync
  echo 3 > /proc/sys/vm/drop_caches
  blktrace $words -D $LAB_OUT/$name > $LAB_OUT/$name.blktrace & tracer=$!
  for disk in "$@"; do
    while [ ! -e /sys/kernel/debug/block/$disk/trace0 ]; do sleep 0.1; done
  done
  sleep 0.5
  $application
  kill -INT $tracer
  wait $tracer
  PYTHONPATH=/lab/host python3 /lab/guest/layout.py $LAB_OUT/$name.disks > $LAB_OUT/$name/layout.json
}

take_down() {
  swapoff -a
  for point in /mnt/app/db /srv/tracekit-nvm /mnt/app; do umount $point || true; done
  vgremove -q -ff --yes group || true
  for name in base nvm; do
    echo 0 > $configured/$name/power
    rmdir $configured/$name
  done
}

list_files() {
  echo path,device,first_sector,sectors
  find /mnt/app/db -type f | while read -r file; do
    filefrag -e -b512 "$file" | awk -v path="$file" -F '[:. ]+' '
      /^ +[0-9]+:/ { printf "%s,base,%s,%s\n", path, $5, $7 }'
  done
}

as_it_was() {  # KIND...
  for kind in "$@"; do
    set_up $kind 1
    if [ $kind = files ]; then list_files > $LAB_OUT/files.csv; fi
    capture $kind $traced
    take_down
  done
}

carried_out() {  # NAME:KIND:DEPTH:CACHE...
  for word in "$@"; do
    IFS=: read -r name kind depth cache <<< "$word"
    set_up $kind $depth
    : > $FSTAB
    CACHE=$cache TRACEKIT_APPLY=yes NVM=/dev/nvm sh $LAB_SHARE/$name.sh
    case $traced in base) capture $name base nvm ;; *) capture $name $traced ;; esac
    take_down
  done
}
