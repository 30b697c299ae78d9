fs_value() { dumpe2fs -h "$1" 2>/dev/null | sed -n "s/^$2: *//p"; }

has_journal() { fs_value "$1" 'Filesystem features' | grep -qw has_journal; }

# apply_journal FS POINT NVM MIB: moves the journal of an ext4 to the NVM. While it has none it can
# be mounted like an ext2. The next run goes on from wherever this one was cut.
apply_journal() {
  blocks=$(($4 * 256)) block_size=4096
  check_free "$3" jbd tracekit-journal $(($4 * 1048576))
  if is_here "$1"; then
    [ "$(kind_of "$1")" = ext4 ] || [ "$(kind_of "$1")" = ext3 ] || stop "$1 is no ext4"
    block_size=$(fs_value "$1" 'Block size')
    blocks=$(($4 * 1048576 / block_size))
  fi
  uuid=$(fs_value "$1" 'Journal UUID')
  if [ -n "$uuid" ] && [ -n "$3" ] && [ "$uuid" = "$(kind_of "$3" UUID)" ]; then
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

# undo_journal FS POINT NVM MIB OLD: gives the file system its journal back, in itself or on the
# device OLD. With NVM_LOST=yes what only the journal had is lost, and the rest is repaired.
undo_journal() {
  uuid=$(fs_value "$1" 'Journal UUID')
  is_here "$1" || uuid=unknown
  old=$(kind_of "${5:-none}" UUID)
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
    run tune2fs -J "${5:+device=}${5:-size=$4}" "$1"
  fi
  mount_again "$1" "$2"
}
