TOOLS="$TOOLS debugfs dumpe2fs e2fsck mke2fs mount tune2fs umount" waiting=

fs_value() { dumpe2fs -h "$1" 2>/dev/null | sed -n "s/^$2: *//p"; }

has_journal() { fs_value "$1" 'Filesystem features' | grep -qw has_journal; }

is_journal_on() {
  uuid=$(fs_value "$1" 'Journal UUID')
  [ -n "$uuid" ] && [ -n "$2" ] && [ "$uuid" = "$(kind_of "$2" UUID)" ]
}

# check_uuid FS UUID: another file system by the same name is not the traced one.
check_uuid() {
  if [ "$2" = any ] || ! is_here "$1"; then return 0; fi
  found=$(kind_of "$1" UUID)
  if [ "$found" != "$2" ]; then
    stop "$1 is not the traced file system: its UUID is ${found:-unknown}, that one's $2; name" \
      "another in FS, or set FS_UUID=any"
  fi
}

# check_journal FS POINT NVM MIB UUID: stops for what would stop apply_journal on its way.
check_journal() {
  check_device FS "$1"
  check_uuid "$1" "$5"
  # What a killed run had unmounted is there again when this one has mounted it.
  if ! is_mounted "$1"; then
    waiting="$waiting$2
"
  fi
  if is_journal_on "$1" "$3"; then return 0; fi
  check_free "$3" jbd tracekit-journal $(($4 * 1048576))
  if is_here "$1"; then
    case $(kind_of "$1") in ext3 | ext4) ;; *) stop "$1 is no ext4" ;; esac
  fi
  check_point "$1" "$2"
}

# apply_journal FS POINT NVM MIB UUID: moves the journal of an ext4 to the NVM. While it has none it can
# be mounted like an ext2. The next run goes on from wherever this one was cut.
apply_journal() {
  block_size=4096
  if is_here "$1"; then block_size=$(fs_value "$1" 'Block size'); fi
  blocks=$(($4 * 1048576 / block_size))
  if is_journal_on "$1" "$3"; then
    say "# the journal of $1 is on $3"
  else
    unmount "$1" "$2"
    check_fs "$1"
    if is_dry || has_journal "$1"; then run tune2fs -O ^has_journal "$1"; fi
    run mke2fs -q -F -O journal_dev -b "$block_size" -L tracekit-journal "${3:-NVM}" "$blocks"
    run tune2fs -J "device=${3:-NVM}" "$1"
  fi
  mount_again "$1" "$2"
}

# undo_journal FS POINT NVM MIB UUID OLD: gives the file system its journal back, in itself or on the
# device OLD. With NVM_LOST=yes what only the journal had is lost, and the rest is repaired.
undo_journal() {
  check_uuid "$1" "$5"
  uuid=$(fs_value "$1" 'Journal UUID')
  if ! is_here "$1"; then uuid=unknown; fi
  old=$(kind_of "${6:-none}" UUID)
  if { [ -z "$uuid" ] && has_journal "$1"; } || { [ -n "$uuid" ] && [ "$uuid" = "$old" ]; }; then
    say "# the journal of $1 is back"
  else
    unmount "$1" "$2"
    if [ "$NVM_LOST" = yes ]; then
      # Neither tune2fs nor e2fsck takes a journal away that is lost and was in use.
      run debugfs -w -R "feature ^needs_recovery" "$1"
      if is_dry || has_journal "$1"; then run tune2fs -f -O ^has_journal "$1"; fi
      check_fs "$1" -y
    else
      check_fs "$1"
      if is_dry || has_journal "$1"; then run tune2fs -O ^has_journal "$1"; fi
    fi
    run tune2fs -J "${6:+device=}${6:-size=$4}" "$1"
  fi
  mount_again "$1" "$2"
}
