export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
MOUNT_OPTIONS=${MOUNT_OPTIONS:-}
FSTAB=${FSTAB:-/etc/fstab}
NVM_LOST=${NVM_LOST:-no}
TOOLS='awk blkid blockdev du find findmnt grep readlink sed sort tail' devices= options=

say() { printf '%s\n' "$*"; }

stop() {
  printf 'stop: %s\n' "$*" >&2
  exit 1
}

# Prints a command as it can be typed; runs it only with TRACEKIT_APPLY=yes.
run() {
  line='+'
  for word in "$@"; do
    case $word in
    '' | *[!A-Za-z0-9_./:=,@%+^-]*)
      line="$line '$(printf '%s' "$word" | sed "s/'/'\\\\''/g")'" ;;
    *) line="$line $word" ;;
    esac
  done
  say "$line"
  is_dry || "$@" </dev/null
}

is_dry() { [ "${TRACEKIT_APPLY:-no}" != yes ]; }

# Whether a device can be looked at: a dry run may be made on another machine, or without its rights.
is_here() { [ -b "$1" ] && [ -r "$1" ]; }

# check_device VARIABLE DEVICE: stops unless it is a block device that nothing else here is for.
check_device() {
  if is_here "$2"; then
    real=$(readlink -f "$2")
    case "$devices " in *" $real "*) stop "$1=$2 is given for something else, too" ;; esac
    devices="$devices $real"
  elif ! is_dry; then
    stop "$1=$2 is not a block device: set the variables at the top"
  elif [ -b "$2" ]; then
    say "# $2 cannot be read by this user: what depends on it is not checked"
  else
    say "# ${2:-$1} is not here: what depends on it is not checked"
  fi
}

# check_tools TOOL...: without blkid a full device would look empty.
check_tools() {
  missing=
  for tool in "$@"; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
  done
  if [ -n "$missing" ]; then
    is_dry || stop "missing programs, install them first:$missing"
    say "# missing here:$missing"
  fi
  is_dry || [ "$(id -u)" = 0 ] || stop "this takes root's rights"
}

kind_of() { blkid -p -o value -s "${2:-TYPE}" "$1" 2>/dev/null || true; }

is_mounted() { findmnt -rn -S "$1" >/dev/null 2>&1; }

is_mount_point() { findmnt -rn -M "$1" >/dev/null 2>&1; }

check_size() {
  size=$(blockdev --getsize64 "$1")
  if [ "$size" -lt "$2" ]; then stop "$1 has $size bytes, $2 are needed"; fi
}

# check_free DEVICE TYPE LABEL BYTES: stops unless the device is large enough, nobody uses it, and it
# is empty or holds what an interrupted run of this script left there.
check_free() {
  if ! is_here "$1"; then return 0; fi
  name=$(basename "$(readlink -f "$1")")
  if is_mounted "$1"; then stop "$1 is mounted"; fi
  if awk 'NR > 1 { print $1 }' /proc/swaps | grep -qxF -e "$1" -e "/dev/$name"; then
    stop "$1 is in use as swap"
  fi
  for held in "/sys/class/block/$name/holders"/* "/sys/class/block/$name/$name"*; do
    if [ -e "$held" ]; then stop "$1 is in use by or divided into $(basename "$held")"; fi
  done
  if [ "$(blockdev --getro "$1")" = 1 ]; then stop "$1 is read-only"; fi
  check_size "$1" "$4"
  found=$(kind_of "$1")$(kind_of "$1" PTTYPE)
  if [ -z "$found" ]; then return 0; fi
  if [ "$found" = "$2" ] && [ "$(kind_of "$1" LABEL)" = "$3" ]; then return 0; fi
  stop "$1 holds $found: if nobody needs that, run wipefs -a $1"
}

# Exit status 1 says that errors were corrected.
check_fs() {
  status=0
  run e2fsck -f "${2:--p}" "$1" || status=$?
  if [ "$status" -gt 1 ]; then stop "e2fsck of $1 ended with $status: run it by hand"; fi
}

# check_point DEVICE POINT: stops unless it can be unmounted there, and is not mounted elsewhere.
check_point() {
  if ! is_here "$1" || ! is_mounted "$1"; then return 0; fi
  count=$(findmnt -rn -o TARGET -S "$1" | grep -c .)
  if [ "$count" != 1 ] || ! findmnt -rn -S "$1" -M "$2" >/dev/null 2>&1; then
    stop "$1 is mounted $count times, or not at '$2': unmount it, or name that point"
  fi
  check_unused "$2"
}

unmount() {
  if ! is_mounted "$1" && { ! is_dry || [ -b "$1" ] || [ -z "$2" ]; }; then return 0; fi
  check_point "$1" "$2"
  options=$(findmnt -rn -o VFS-OPTIONS -S "$1" -M "$2") || options=
  run umount "$2"
}

# mount_again DEVICE POINT: as fstab has it, else as it was mounted before.
mount_again() {
  if [ -z "$2" ] || { ! is_dry && is_mounted "$1"; }; then return 0; fi
  if findmnt --fstab -rn -M "$2" >/dev/null 2>&1; then
    run mount "$2"
  else
    run mount -o "${MOUNT_OPTIONS:-${options:-defaults}}" "$1" "$2"
  fi
}

# A name as fstab has it: what would end a word or a line is octal there.
in_fstab() {
  printf '%s' "$1" | sed ':all
    $!{ N; b all
    }
    s/\\/\\134/g; s/ /\\040/g; s/\t/\\011/g; s/\n/\\012/g'
}

# set_fstab add|drop LINE: the file is the old or the new one whole.
set_fstab() {
  if grep -qxF -e "$2" "$FSTAB" 2>/dev/null; then there=add; else there=drop; fi
  if [ "$there" = "$1" ]; then return 0; fi
  say "+ $1 in $FSTAB: $2"
  if is_dry; then return 0; fi
  if [ -e "$FSTAB" ]; then cp -p "$FSTAB" "$FSTAB.tracekit-new"; else : >"$FSTAB.tracekit-new"; fi
  if [ "$1" = add ]; then
    # A last line without its end would become one with the new line.
    if [ -n "$(tail -c 1 "$FSTAB.tracekit-new")" ]; then echo >>"$FSTAB.tracekit-new"; fi
    printf '%s\n' "$2" >>"$FSTAB.tracekit-new"
  else
    grep -vxF -e "$2" "$FSTAB" >"$FSTAB.tracekit-new" || true
  fi
  sync "$FSTAB.tracekit-new"
  mv "$FSTAB.tracekit-new" "$FSTAB"
}

# Stops if a process has a file below the path open, works in it or maps it.
check_unused() {
  users=$(find /proc/[0-9]*/fd /proc/[0-9]*/cwd /proc/[0-9]*/map_files -type l \
    -printf '%p %l\n' 2>/dev/null | DIR="$1" awk '
      { at = index($0, " "); target = substr($0, at + 1); split($0, part, "/") }
      target == ENVIRON["DIR"] || index(target, ENVIRON["DIR"] "/") == 1 { print part[3] }
    ' | sort -un | head -n 5 | tr '\n' ' ') || true
  if [ -n "$users" ]; then
    is_dry || stop "$1 is in use by process $users: end it first"
    say "# first end process $users, which uses $1"
  fi
}
