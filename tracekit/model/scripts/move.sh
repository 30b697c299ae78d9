TOOLS="$TOOLS cp df mke2fs mount mv umount"
NVM_MOUNT=${NVM_MOUNT:-/srv/tracekit-nvm}

# Without nofail a machine whose NVM died would not start.
nvm_line() { say "LABEL=tracekit-nvm $(in_fstab "$NVM_MOUNT") ext4 defaults,nofail 0 2"; }

bind_line() { say "$(in_fstab "$2") $(in_fstab "$1") none bind,nofail,x-systemd.requires-mounts-for=$(in_fstab "$NVM_MOUNT") 0 0"; }

# is_ours POINT: whether what is mounted there is the file system on the NVM, or a part of it.
is_ours() {
  there=$(findmnt -rn -o SOURCE -M "$1") || return 1
  [ "$(kind_of "${there%%\[*}" LABEL)" = tracekit-nvm ]
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
  if [ -L "$1" ]; then stop "$1 is a link to $(readlink -f "$1"): name that with --files"; fi
  if [ ! -e "$1" ]; then
    is_dry || stop "there is no $1"
    return 0
  fi
  check_unused "$1"
  check_room "$1" "$3" "$4"
}

# check_room PATH NVM BYTES: files may have grown since they were traced.
check_room() {
  copied_kib=$((${copied_kib:-0} + $(du -sk "$1" 2>/dev/null | awk 'NR == 1 { print $1 }')))
  if is_mount_point "$NVM_MOUNT"; then
    free_kib=$(df -k --output=avail "$NVM_MOUNT" | tail -n 1)
  elif is_here "$2"; then
    free_kib=$(($(blockdev --getsize64 "$2") / 1024 - 16384))
  else
    return 0
  fi
  if [ "$copied_kib" -gt "$free_kib" ]; then
    stop "$1 and what moves before it have $copied_kib KiB now, on $2 are $free_kib KiB for files"
  fi
}

# prepare_files NVM: an ext4 on the NVM, mounted.
prepare_files() {
  if is_mount_point "$NVM_MOUNT"; then return 0; fi
  if ! is_here "$1" || [ -z "$(kind_of "$1")" ]; then
    # Else the kernel writes tables for minutes, among what the files are asked for.
    run mke2fs -q -F -t ext4 -m 0 -E lazy_itable_init=0,lazy_journal_init=0 -L tracekit-nvm \
      "${1:-NVM}"
  fi
  run mkdir -p "$NVM_MOUNT"
  set_fstab add "$(nvm_line)"
  run mount "${1:-NVM}" "$NVM_MOUNT"
}

# apply_move PATH NAME NVM: copies a directory or file to the NVM and mounts the copy over it.
# Until the original is renamed it is the one that counts, and is copied anew; from then on the copy
# is. A name without the copy behind it is empty, so that nothing takes old data for new.
apply_move() {
  where=$NVM_MOUNT/$2
  prepare_files "$3"
  if is_ours "$1"; then
    say "# $1 is on the NVM"
    return 0
  fi
  if [ ! -e "$1.tracekit-old" ]; then
    check_unused "$1"
    run rm -rf "$where"
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

# undo_move PATH NAME NVM: copies it back. The copy on the NVM counts until it is renamed, which
# happens when the new one beside the original is whole. With NVM_LOST=yes the original comes back as
# it was before it was moved.
undo_move() {
  where=$NVM_MOUNT/$2
  if [ ! -e "$1.tracekit-old" ]; then
    say "# $1 is not on the NVM"
    is_dry || return 0
  fi
  if [ "$NVM_LOST" = yes ]; then
    if is_mount_point "$1"; then run umount -l "$1"; fi
    set_fstab drop "$(bind_line "$1" "$where")"
    set_fstab drop "$(nvm_line)"
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
  run rm -rf "$1.tracekit-old"
}

# leave_files: nothing is mounted from the NVM any more.
leave_files() {
  if [ "$NVM_LOST" != yes ] && { is_dry || is_mount_point "$NVM_MOUNT"; }; then
    run umount "$NVM_MOUNT"
  fi
  set_fstab drop "$(nvm_line)"
}
