TOOLS="$TOOLS cp df mke2fs mount mv umount"
NVM_MOUNT=${NVM_MOUNT:-/srv/tracekit-nvm}
waiting=${waiting:-} files=0 copied_kib=0

# Without nofail a machine whose NVM died would not start.
nvm_line() { say "LABEL=tracekit-nvm $(in_fstab "$NVM_MOUNT") ext4 defaults,nofail 0 2"; }

bind_line() { say "$(in_fstab "$2") $(in_fstab "$1") none bind,nofail,x-systemd.requires-mounts-for=$(in_fstab "$NVM_MOUNT") 0 0"; }

# is_ours POINT: whether what is mounted there is the file system on the NVM, or a part of it.
is_ours() {
  there=$(findmnt -rn -o SOURCE -M "$1") || return 1
  [ "$(kind_of "${there%%\[*}" LABEL)" = tracekit-nvm ]
}

# is_waiting PATH: whether it is below a file system that this script has yet to mount.
is_waiting() {
  while IFS= read -r point; do
    if [ -z "$point" ] || is_mount_point "$point"; then continue; fi
    case $1 in "$point"/*) return 0 ;; esac
  done <<POINTS
${waiting%?}
POINTS
  return 1
}

# check_move PATH NAME NVM BYTES: stops for what would stop apply_move on its way.
check_move() {
  if is_ours "$1"; then return 0; fi
  if is_mount_point "$1"; then stop "$1 is a mount point: what is mounted there is moved whole"; fi
  if is_mount_point "$NVM_MOUNT"; then
    is_ours "$NVM_MOUNT" || stop "$NVM_MOUNT holds $there"
  else
    check_free "$3" ext4 tracekit-nvm "$4"
  fi
  if [ -e "$1.tracekit-old" ]; then return 0; fi
  if [ ! -e "$1" ] && [ ! -L "$1" ]; then
    if is_waiting "$1"; then
      say "# $1 is looked at when its file system is mounted"
      return 0
    fi
    is_dry || stop "there is no $1"
    return 0
  fi
  check_path "$1" "$NVM_MOUNT/$2" "$3"
}

# check_path PATH COPY NVM: stops unless the path can be moved, with what was checked before it.
check_path() {
  if [ -L "$1" ]; then stop "$1 is a link to $(readlink -f "$1"): name that with --files"; fi
  [ -e "$1" ] || stop "there is no $1"
  check_unused "$1"
  check_names "$1"
  check_room "$1" "$2" "$3"
}

# check_names PATH: a file with a second name outside would be two files from then on.
check_names() {
  outside=$(find "$1" -xdev ! -type d -links +1 -printf '%i %n %p\n' 2>/dev/null | awk '
    { seen[$1]++; links[$1] = $2; if (!($1 in name)) name[$1] = $0 }
    END { for (one in seen) if (seen[one] < links[one]) { print name[one]; exit } }')
  if [ -n "$outside" ]; then
    stop "${outside#* * } has another name outside of $1 (a hard link): one of them would stay"
  fi
}

journal_mib() {
  mib=$(($1 / 32768))
  if [ "$mib" -lt 4 ]; then mib=4; elif [ "$mib" -gt 128 ]; then mib=128; fi
  echo "$mib"
}

# inodes_of KIB: one for each 16 KiB, or for all files that move and a quarter more.
inodes_of() {
  count=$(($1 / 16))
  if [ "$count" -lt $((files * 5 / 4)) ]; then count=$((files * 5 / 4)); fi
  echo "$count"
}

# check_room PATH COPY NVM: files may have grown since they were traced. What a killed run copied,
# and what an undo left, goes before the path is copied.
check_room() {
  size_kib=$(du -sk "$1" 2>/dev/null | awk 'NR == 1 { print $1 }')
  copied_kib=$((copied_kib + size_kib))
  files=$((files + $(find "$1" -xdev 2>/dev/null | grep -c .)))
  if is_mount_point "$NVM_MOUNT"; then
    free_files=$(df --output=iavail "$NVM_MOUNT" | tail -n 1)
    if [ "$files" -gt "$free_files" ]; then
      stop "$1 and what moves before it are $files files, $NVM_MOUNT has inodes for $free_files"
    fi
    free_kib=$(df -k --output=avail "$NVM_MOUNT" | tail -n 1)
    for left in "$2" "$2.undone"; do
      if [ -e "$left" ]; then free_kib=$((free_kib + $(du -sk "$left" | awk '{ print $1 }'))); fi
    done
  elif is_here "$3"; then
    # ext4 keeps a fiftieth of itself, 16 MiB at most; its tables take half a percent.
    size_kib=$(($(blockdev --getsize64 "$3") / 1024))
    kept_kib=$((size_kib / 50))
    if [ "$kept_kib" -gt 16384 ]; then kept_kib=16384; fi
    free_kib=$((size_kib - kept_kib - size_kib / 200 - 512))
    free_kib=$((free_kib - $(journal_mib "$size_kib") * 1024 - $(inodes_of "$size_kib") / 4))
    if [ "$free_kib" -lt 0 ]; then free_kib=0; fi
  else
    return 0
  fi
  if [ "$copied_kib" -gt "$free_kib" ]; then
    stop "$1 and what moves before it have $copied_kib KiB now, on ${3:-$NVM_MOUNT} are" \
      "$free_kib KiB for files"
  fi
}

# prepare_files NVM: an ext4 on the NVM, mounted. Of blocks of 4 KiB, which DAX takes.
prepare_files() {
  if is_mount_point "$NVM_MOUNT"; then return 0; fi
  if ! is_here "$1" || [ -z "$(kind_of "$1")" ]; then
    sizes=
    if is_here "$1"; then
      size_kib=$(($(blockdev --getsize64 "$1") / 1024))
      sizes="-J size=$(journal_mib "$size_kib") -N $(inodes_of "$size_kib")"
    fi
    # Else the kernel writes tables for minutes, among what the files are asked for.
    # shellcheck disable=SC2086
    run mke2fs -q -F -t ext4 -b 4096 -I 256 -m 0 $sizes \
      -E lazy_itable_init=0,lazy_journal_init=0 -L tracekit-nvm "${1:-NVM}"
  fi
  run mkdir -p "$NVM_MOUNT"
  set_fstab add "$(nvm_line)"
  run mount "${1:-NVM}" "$NVM_MOUNT"
}

# apply_move PATH NAME NVM BYTES: copies a directory or file to the NVM and mounts the copy over it.
# Until the original is renamed it is the one that counts, and is copied anew; from then on the copy
# is. A name without the copy behind it is empty, so that nothing takes old data for new.
apply_move() {
  where=$NVM_MOUNT/$2
  if is_ours "$1"; then
    say "# $1 is on the NVM"
    return 0
  fi
  if ! is_dry && [ ! -e "$1.tracekit-old" ]; then
    known=$files files=0 copied_kib=0
    check_path "$1" "$where" "$3"
    if [ "$files" -lt "$known" ]; then files=$known; fi
  fi
  prepare_files "$3"
  if [ ! -e "$1.tracekit-old" ]; then
    run rm -rf "$where" "$where.undone"
    run cp -a "$1" "$where"
    run sync -f "$NVM_MOUNT"
    run mv "$1" "$1.tracekit-old"
  fi
  if is_dry || [ ! -e "$1" ]; then
    if [ -f "$1" ] || [ -f "$1.tracekit-old" ]; then run touch "$1"; else run mkdir "$1"; fi
  fi
  set_fstab add "$(bind_line "$1" "$where")"
  run mount --bind "$where" "$1"
}

# remove_empty PATH: takes away what the copy was mounted over.
remove_empty() {
  if [ -d "$1" ]; then
    run rmdir "$1"
  elif [ -f "$1" ]; then
    is_dry || [ ! -s "$1" ] || stop "$1 is not empty: somebody wrote to it"
    run rm -f "$1"
  fi
}

# release_move PATH NAME: of a dead NVM nothing is mounted any more.
release_move() {
  if is_mount_point "$1"; then run umount -l "$1"; fi
}

# undo_move PATH NAME NVM: copies it back. The copy on the NVM counts until it is renamed, which
# happens when the new one beside the original is whole. With NVM_LOST=yes the original comes back as
# it was before it was moved.
undo_move() {
  where=$NVM_MOUNT/$2
  if [ ! -e "$1.tracekit-old" ]; then
    if ! is_dry && grep -qxF -e "$(bind_line "$1" "$where")" "$FSTAB" 2>/dev/null; then
      stop "there is no $1.tracekit-old, but $FSTAB has $1: mount its file system first"
    fi
    say "# $1 is not on the NVM"
    is_dry || return 0
  fi
  if [ "$NVM_LOST" = yes ]; then
    release_move "$1"
    set_fstab drop "$(bind_line "$1" "$where")"
    remove_empty "$1"
    run mv "$1.tracekit-old" "$1"
    return 0
  fi
  if [ -n "$3" ] && ! is_mount_point "$NVM_MOUNT"; then run mount "$3" "$NVM_MOUNT"; fi
  if is_dry || [ -e "$where" ]; then check_unused "$1"; fi
  if is_dry || is_mount_point "$1"; then run umount "$1"; fi
  set_fstab drop "$(bind_line "$1" "$where")"
  if is_dry || [ -e "$where" ]; then
    run rm -rf "$1.tracekit-part" "$1.tracekit-new"
    run cp -a "$where" "$1.tracekit-part"
    run mv "$1.tracekit-part" "$1.tracekit-new"
    run sync -f "$1.tracekit-new"
    run rm -rf "$where.undone"
    run mv "$where" "$where.undone"
    run sync -f "$NVM_MOUNT"
  fi
  if is_dry || [ -e "$1.tracekit-new" ]; then
    remove_empty "$1"
    run mv "$1.tracekit-new" "$1"
    run sync -f "$1"
  fi
  run rm -rf "$where.undone"
  run rm -rf "$1.tracekit-old"
}

# leave_files: nothing is mounted from the NVM any more.
leave_files() {
  if is_dry || is_mount_point "$NVM_MOUNT"; then
    if [ "$NVM_LOST" = yes ]; then run umount -l "$NVM_MOUNT"; else run umount "$NVM_MOUNT"; fi
  fi
  set_fstab drop "$(nvm_line)"
}
