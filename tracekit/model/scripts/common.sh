export LC_ALL=C PATH="$PATH:/usr/sbin:/sbin"
MOUNT_OPTIONS=${MOUNT_OPTIONS:-defaults}
FSTAB=${FSTAB:-/etc/fstab}
NVM_LOST=${NVM_LOST:-no}

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

# Whether a device can be looked at; a dry run may be made on another machine.
is_here() {
  [ -n "$1" ] && [ -b "$1" ] && return 0
  is_dry || stop "${1:-NVM} is not a block device: set the variables at the top"
  say "# ${1:-NVM} is not here: what depends on it is not checked"
  return 1
}

kind_of() { blkid -p -o value -s "${2:-TYPE}" "$1" 2>/dev/null || true; }

is_mounted() { findmnt -rn -S "$1" >/dev/null 2>&1; }

is_mount_point() { findmnt -rn -M "$1" >/dev/null 2>&1; }

# check_free DEVICE TYPE LABEL BYTES: stops unless the device is large enough, nobody uses it, and it
# is empty or holds what an interrupted run of this script left there.
check_free() {
  is_here "$1" || return 0
  name=$(basename "$(readlink -f "$1")")
  if is_mounted "$1"; then stop "$1 is mounted"; fi
  if awk 'NR > 1 { print $1 }' /proc/swaps | grep -qxF -e "$1" -e "/dev/$name"; then
    stop "$1 is in use as swap"
  fi
  for held in "/sys/class/block/$name/holders"/* "/sys/class/block/$name/$name"*; do
    if [ -e "$held" ]; then stop "$1 is in use by or divided into $(basename "$held")"; fi
  done
  size=$(blockdev --getsize64 "$1")
  if [ "$size" -lt "$4" ]; then stop "$1 has $size bytes, $4 are needed"; fi
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

unmount() {
  if ! is_mounted "$1" && { ! is_dry || [ -b "$1" ] || [ -z "$2" ]; }; then return 0; fi
  run umount "$2"
  if ! is_dry && is_mounted "$1"; then stop "$1 is mounted elsewhere too: umount it there"; fi
}

mount_again() {
  if [ -z "$2" ] || { ! is_dry && is_mounted "$1"; }; then return 0; fi
  if findmnt --fstab -rn -M "$2" >/dev/null 2>&1; then
    run mount "$2"
  else
    run mount -o "$MOUNT_OPTIONS" "$1" "$2"
  fi
}

# A name as fstab has it: spaces, tabs and backslashes are octal there.
in_fstab() { printf '%s' "$1" | sed 's/\\/\\134/g; s/ /\\040/g; s/\t/\\011/g'; }

# set_fstab add|drop LINE: the file is the old or the new one whole.
set_fstab() {
  if grep -qxF -e "$2" "$FSTAB" 2>/dev/null; then there=add; else there=drop; fi
  if [ "$there" = "$1" ]; then return 0; fi
  say "+ $1 in $FSTAB: $2"
  if is_dry; then return 0; fi
  cp -p "$FSTAB" "$FSTAB.tracekit-new"
  if [ "$1" = add ]; then
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
