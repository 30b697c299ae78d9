# Record disks of this host with the kernel's tracer `blk`, and send the records: `capture --remote`.
#
#   sh -c SCRIPT NAME BUFFER_KIB DISKS SETTINGS [COMMAND...]     as root
#
# DISKS and SETTINGS (path=value, below tracefs) are words in one argument. Standard output has the
# line `tracekit-remote`, then frames: a line `KIND NAME BYTES`, and so many bytes. Standard input
# is the control channel: a line `stop` ends the recording, `cut` divides it, `term` ends the command,
# and its end, also by a broken connection, ends all but the command and gives the settings back.
export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
umask 077
trap '' PIPE HUP INT TERM
echo tracekit-remote
base='' dir='' sent=0
buffer_kib=$1 disks=$2 settings=$3
shift 3

# Why it cannot be done, and what to do about it.
fail() {
  set -- "$1
${2:-}"
  printf 'error - %s\n%s' "${#1}" "$1"
  [ -z "$dir" ] || rm -rf "$dir"
  exit 1
}

# --- Settings, each noted before it is changed -----------------------------------------------------

value_of() {
  text=$(cat "$1")
  case $text in
    *'expanded: '*) text=${text#*expanded: } text=${text%%)*} ;;
    *'['*']'*) text=${text#*'['} text=${text%%']'*} ;;
  esac
  case $1 in
    */saved_cmdlines_size) [ "$text" -le 32768 ] || text=32768 ;;
  esac
  printf '%s' "$text"
}

change() {
  [ -e "$1" ] || return 0
  printf '%s %s\n' "$1" "$(value_of "$1")" >>"$dir/saved"
  echo "$2" 2>/dev/null >"$1" || { give_back "$dir"; fail "$1 cannot be set to $2"; }
}

# The last change first. A tracer that somebody else took meanwhile is theirs.
restore() {
  [ -f "$1/saved" ] || return 0
  sed '1!G;h;$!d' "$1/saved" | while read -r path value; do
    case $path in
      */current_tracer) [ "$(cat "$path")" = blk ] || continue ;;
    esac
    echo "$value" 2>/dev/null >"$path"
  done
  rm -f "$1/saved"
}

give_back() {
  restore "$1"
  rm -rf "$1"
}

# --- What may be in the way ------------------------------------------------------------------------

find_tools() {
  for tool in awk cat dd grep mkdir sed wc; do
    command -v $tool >/dev/null || fail "$tool is missing" 'install coreutils, grep, sed and awk'
  done
  dd if=/dev/null of=/dev/null iflag=nonblock 2>/dev/null ||
    fail 'dd has no iflag=nonblock' 'install coreutils: busybox does not have it'
}

find_tracefs() {
  for root in /sys/kernel/tracing /sys/kernel/debug/tracing; do
    [ ! -e $root/current_tracer ] || return 0
  done
  root=/sys/kernel/tracing
  mount -t tracefs tracefs $root 2>/dev/null || fail 'tracefs is not mounted and cannot be' \
    "it needs a kernel with CONFIG_BLK_DEV_IO_TRACE, and no container: mount -t tracefs tracefs $root"
}

# Data waits in memory for its turn: what is written to a disk would be recorded.
find_memory() {
  for base in /run /dev/shm /tmp; do
    ! grep -q "^[^ ]* $base tmpfs rw" /proc/mounts || return 0
  done
  fail 'none of /run, /dev/shm and /tmp is a tmpfs'
}

# Whether the process that made a folder is alive; a number that was given again is of a later one.
began() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | awk '$1 != "Z" { print $20 }'; }
is_alive() {
  owner='' born=''
  [ ! -e "$1/owner" ] || read -r owner born <"$1/owner"
  [ -n "$born" ] && [ "$(began "$owner")" = "$born" ]
}

# The lock of all captures on this kernel, which are local ones or of this script. The guard has it,
# too, so that it is free only when the settings are given back.
WAITS=50
take_lock() {
  has_lock=''
  command -v flock >/dev/null || return 0
  exec 9<"$root"
  waits=0
  until flock -n 9; do
    [ $waits -lt $WAITS ] || fail "another capture is running$(holder)" \
      'the tracer is one for the whole machine: wait until that has ended, or stop it'
    waits=$((waits + 1))
    sleep 0.2
  done
  has_lock=yes
}

holder() {
  for file in "$base"/tracekit-remote.*/owner /run/tracekit/pid; do
    [ ! -s "$file" ] || printf ' (pid %s)' "$(awk '{ print $1; exit }' "$file")"
  done
}

# What a killed script left: with the lock, no owner of these is alive.
clean_up() {
  for old in "$base"/tracekit-remote.*; do
    if [ -d "$old" ] && [ ! -L "$old" ] && [ -O "$old" ]; then
      [ -n "$has_lock" ] || ! is_alive "$old" || fail "another capture is running$(holder)"
      give_back "$old"
    fi
  done
}

check() {
  grep -qw blk $root/available_tracers || fail 'the kernel has no tracer blk (CONFIG_BLK_DEV_IO_TRACE)'
  tracer=$(cat $root/current_tracer)
  [ "$tracer" = nop ] || fail \
    "the kernel's tracer is in use: $root/current_tracer is '$tracer'" \
    "stop the other tracing, or write nop to $root/current_tracer"
  event=$(head -n 1 $root/set_event)
  [ -z "$event" ] || fail "trace events are enabled in $root/set_event (first: $event)"
  for disk in $disks; do
    [ -d "/sys/block/$disk" ] || {
      [ ! -e "/sys/class/block/$disk/partition" ] || fail "/dev/$disk is a partition: name its disk"
      fail "/dev/$disk is not a block device"
    }
    [ "$(cat "/sys/block/$disk/trace/enable")" = 0 ] || fail "$disk is being traced already"
  done
}

# --- Frames ----------------------------------------------------------------------------------------

send() {
  bytes=$(($(wc -c <"$dir/frame")))
  printf '%s %s %s\n' "$1" "$2" "$bytes" 2>/dev/null
  cat "$dir/frame" 2>/dev/null
}

# A text of a program that is there and has something to say; `missing` where it is not.
text() {
  name=$1
  shift
  if ! command -v "$1" >/dev/null; then
    printf '%s' "$1" >"$dir/frame"
    send missing -
  elif "$@" >"$dir/frame" 2>/dev/null </dev/null && [ -s "$dir/frame" ]; then
    send text "$name"
  fi
}

send_layout() {
  text lsblk lsblk -J -b -O
  text findmnt findmnt -J
  text blkid blkid
  text swaps cat /proc/swaps
  text dmsetup dmsetup table
  for disk in $disks; do
    text "$disk-sfdisk" sfdisk -J "/dev/$disk"
    lsblk -n -l -o KNAME,FSTYPE "/dev/$disk" 2>/dev/null | sort -u >"$dir/inside"
    while read -r name kind; do
      case $kind in
        ext*)
          text "$name=dumpe2fs" dumpe2fs -h "/dev/$name"
          text "$name=journal" debugfs -R 'stat <8>' "/dev/$name"
          ;;
        xfs) text "$name=xfs" xfs_info "/dev/$name" ;;
        linux_raid_member) text "$name=md" mdadm --examine "/dev/$name" ;;
      esac
    done <"$dir/inside"
  done
  # A swap file whose name has a space stays unknown.
  awk '$2 == "file" { print $1 }' /proc/swaps >"$dir/inside"
  while read -r name; do
    text filefrag filefrag -v "$name"
  done <"$dir/inside"
}

now_ns() {
  now=$(awk '$1 == "now" { print $3; exit }' /proc/timer_list 2>/dev/null)
  [ -n "$now" ] || now=$(awk '{ printf "%.0f", $1 * 1e9 }' /proc/uptime)
}

attribute() { cat "/sys/block/$1/$2" 2>/dev/null || echo "$3"; }

send_facts() {
  for disk in $disks; do
    {
      attribute "$disk" dev 0:0
      attribute "$disk" size 0
      attribute "$disk" queue/logical_block_size 512
      attribute "$disk" queue/rotational 0
      [ ! -e "/sys/block/$disk/queue/scheduler" ] || value_of "/sys/block/$disk/queue/scheduler"
    } >"$dir/frame"
    send disk "$disk"
  done
  now_ns
  first=$now
  wall=$(date +%s%N)
  case $wall in *[!0-9]*) wall=$(date +%s)000000000 ;; esac
  now_ns
  printf '%s\n' $((wall - (first + now) / 2)) $$ "$(cat /proc/sys/kernel/random/boot_id)" \
    "$(uname -r)" "$(uname -n)" "$now" >"$dir/frame"
  send facts -
}

# Where the hierarchy is mounted, whole, in which the kernel counts I/O: blkio of v1, or v2.
find_hierarchy() {
  awk '$4 == "/" {
    for (i = 7; i < NF && $i != "-"; i++);
    if ($(i + 1) == "cgroup" && $(i + 3) ~ /(^|,)blkio(,|$)/ && first == "") first = $5
    if ($(i + 1) == "cgroup2" && second == "") second = $5
  }
  END {
    place = first == "" ? second : first
    gsub(/\\040/, " ", place)
    print place
  }' "${1:-/proc/self/mountinfo}"
}

# Ids and paths of the control groups.
send_cgroups() {
  top=$(find_hierarchy)
  (cd "${top:?}" && find . -type d -exec ls -id {} +) >"$dir/frame" 2>/dev/null
  send cgroups -
}

# The disks' own counters, between the times before and after.
send_counters() {
  for disk in $disks; do
    now_ns
    first=$now
    stat=$(cat "/sys/block/$disk/stat" 2>/dev/null)
    now_ns
    printf '%s\n' "$first" "$now" "$stat" "$(attribute "$disk" queue/iostats 1)" \
      "$(attribute "$disk" queue/iostats_passthrough 0)" >"$dir/frame"
    send "$1" "$disk"
  done
}

send_now() {
  cp $root/saved_cmdlines "$dir/frame" && send names -
  losses
  printf '%s\n' $((overrun - overrun0)) $((dropped - dropped0)) >"$dir/frame"
  send losses -
  for disk in $disks; do
    attribute "$disk" stat '' >"$dir/frame"
    send stat "$disk"
  done
}

losses() {
  # shellcheck disable=SC2046
  set -- $(cat $root/per_cpu/cpu*/stats | awk -F': ' '
    $1 == "overrun" || $1 == "commit overrun" { overrun += $2 }
    $1 == "dropped events" { dropped += $2 }
    $1 == "read events" { taken += $2 }
    $1 == "entries" { left += $2 }
    END { print overrun + 0, dropped + 0, taken + 0, left + 0 }')
  overrun=$1 dropped=$2 taken=$3 left=$4
}

# What each CPU has, up to so many pages: a reading ends with a whole record.
PAGES=1024
drain() {
  moved=0
  for cpu in $cpus; do
    dd if="$root/per_cpu/cpu$cpu/trace_pipe" of="$dir/frame" iflag=nonblock bs=65536 \
      count=$PAGES 2>/dev/null
    [ -s "$dir/frame" ] || continue
    send cpu "$cpu"
    sent=$((sent + bytes))
    moved=$((moved + bytes))
  done
}

# --- Recording -------------------------------------------------------------------------------------

# Whatever becomes of the process that records, when standard input ends the settings are given back.
guard() {
  while read -r word; do
    case $word in
      stop) : >"$dir/stop" ;;
      cut) : >"$dir/cut" ;;
      term) kill -TERM "$(cat "$dir/command")" ;;
    esac
  done
  : >"$dir/closed"
  while kill -0 $$ && [ -d "$dir" ]; do sleep 0.2; done
  [ ! -d "$dir" ] || give_back "$dir"
}

begin() {
  for setting in $settings; do
    change "$root/${setting%%=*}" "${setting#*=}"
  done
  cpus=''
  for folder in "$root"/per_cpu/cpu*; do
    cpu=${folder##*/cpu}
    [ "$(cat "/sys/devices/system/cpu/cpu$cpu/online" 2>/dev/null)" = 0 ] || {
      cpus="$cpus $cpu"
      change "$folder/buffer_size_kb" "$buffer_kib"
    }
  done
  change $root/current_tracer blk
  losses
  overrun0=$overrun dropped0=$dropped taken0=$taken
  for disk in $disks; do
    change "/sys/block/$disk/trace/enable" 1
  done
  send_facts
  send_cgroups
  send_counters begin
}

run_command() {
  (
    exec 3<&- 9<&- >/dev/null
    trap - PIPE HUP INT TERM
    if [ -n "${SUDO_UID:-}" ] && [ "$SUDO_UID" != 0 ]; then
      set -- sudo -n -u "#$SUDO_UID" -- "$@"
    fi
    umask 022
    "$@" </dev/null >&2 &
    echo $! >"$dir/command"
    wait $!
    echo $? >"$dir/ending"
    mv "$dir/ending" "$dir/status"
  ) &
}

is_over() { [ -e "$dir/stop" ] || [ -e "$dir/closed" ] || [ -e "$dir/status" ]; }

# As a capture of this machine is cut: all that was recorded until the counters are read is before.
# That is no more than the buffers hold, however much comes meanwhile.
divide() {
  rm -f "$dir/cut"
  send_counters finish
  drains=$((buffer_kib / (PAGES * 4) + 2))
  drain
  while [ $moved -gt $((PAGES * 1024)) ] && [ $drains -gt 0 ]; do
    ! is_over || return 0
    drain
    drains=$((drains - 1))
  done
  send_now
  : >"$dir/frame"
  send cut -
  send_counters begin
}

record() {
  rounds=0
  while ! is_over; do
    drain
    [ ! -e "$dir/cut" ] || divide
    [ $((rounds % 5)) != 0 ] || send_now
    rounds=$((rounds + 1))
    if [ "$(cat $root/current_tracer)" != blk ] || [ "$(cat $root/tracing_on)" = 0 ]; then
      printf "somebody else took the kernel's tracer" >"$dir/frame"
      send taken -
      break
    fi
    [ $moved -gt $((PAGES * 1024)) ] || sleep 0.1
  done
}

finish() {
  sleep 0.01
  send_counters finish
  for disk in $disks; do
    [ ! -e "/sys/block/$disk/trace/enable" ] || echo 0 >"/sys/block/$disk/trace/enable"
  done
  drain
  while [ $moved != 0 ]; do drain; done
  send_cgroups
  send_now
  losses
  printf '%s\n' $((overrun - overrun0)) $((dropped - dropped0 + left)) $((taken - taken0)) \
    $sent >"$dir/frame"
  send end -
}

find_tools
find_tracefs
find_memory
take_lock
clean_up
check
own=$base/tracekit-remote.$(cat /proc/sys/kernel/random/uuid)
mkdir "$own" || fail "no folder can be made in $base"
dir=$own
echo $$ "$(began $$)" >"$dir/owner"
exec 3<&0 </dev/null
send_layout
# dash keeps copies of what a redirected function had: only `exec` closes them.
(exec <&3 3<&- >/dev/null 2>&1 && guard) &
begin
[ $# = 0 ] || run_command "$@"
record
finish
restore "$dir"
if [ $# != 0 ]; then
  while [ ! -e "$dir/status" ] && [ ! -e "$dir/closed" ]; do
    sleep 0.1
  done
  if [ -e "$dir/status" ]; then
    cp "$dir/status" "$dir/frame"
    send exit -
  fi
fi
give_back "$dir"
