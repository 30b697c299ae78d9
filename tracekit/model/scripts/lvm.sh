lvm_value() { "$1" --noheadings --nosuffix --units b -o "$2" "$3" 2>/dev/null | tr -d ' '; }

# find_group LV NVM: whether the NVM is in the group of the logical volume.
find_group() {
  group=GROUP volume=VOLUME
  if ! is_here "$1"; then return 1; fi
  group=$(lvm_value lvs vg_name "$1")
  volume=$(lvm_value lvs lv_name "$1")
  if [ -z "$volume" ]; then stop "$1 is no logical volume"; fi
  [ -n "$2" ] && [ "$(lvm_value pvs vg_name "$2")" = "$group" ]
}

# join_group LV NVM BYTES: the NVM becomes a physical volume of that group.
join_group() {
  if find_group "$1" "$2"; then return 0; fi
  if [ -n "$2" ] && [ "$(kind_of "$2")" = LVM2_member ]; then
    if [ -n "$(lvm_value pvs vg_name "$2")" ]; then stop "$2 is of another volume group"; fi
  else
    check_free "$2" none none "$3"
    run pvcreate "${2:-NVM}"
  fi
  run vgextend "$group" "${2:-NVM}"
}

# left_group LV NVM: whether nothing is to be undone.
left_group() {
  if find_group "$1" "$2" || is_dry; then return 1; fi
  say "# $2 is not in the group $group"
  if [ "$(kind_of "$2")" = LVM2_member ] && [ -z "$(lvm_value pvs vg_name "$2")" ]; then
    run pvremove "$2"
  fi
}

leave_group() {
  run vgreduce "$group" "${1:-NVM}"
  run pvremove "${1:-NVM}"
}

# apply_extents LV NVM BYTES FIRST+COUNT...: moves bytes from FIRST on, while the volume is in use.
# pvmove keeps its state in the group: what was cut goes on where it was.
apply_extents() {
  lv=$1 nvm=$2
  join_group "$1" "$2" "$3"
  shift 3
  if is_dry && [ ! -b "$lv" ]; then
    say "+ pvmove -n VOLUME OLD:EXTENTS ${nvm:-NVM}, for bytes $*"
    return 0
  fi
  extent=$(lvm_value vgs vg_extent_size "$group")
  if [ -n "$(lvs -a --noheadings -o lv_name "$group" | grep pvmove)" ]; then run pvmove; fi
  for range in "$@"; do
    first=$((${range%+*} / extent))
    last=$(((${range%+*} + ${range#*+} - 1) / extent))
    move_range "$first" "$last"
  done
}

# move_range FIRST LAST: logical extents of the volume, by the linear segments that hold them.
move_range() {
  segments=$(lvs --noheadings --segments -o seg_start_pe,seg_size_pe,seg_pe_ranges "$group/$volume")
  while read -r start size where; do
    from=$(($1 > start ? $1 : start))
    to=$(($2 < start + size - 1 ? $2 : start + size - 1))
    if [ "$from" -gt "$to" ] || [ "${where%%:*}" = "$nvm" ]; then continue; fi
    case $where in
    *' '*) stop "$group/$volume is not linear: $where" ;;
    /*) ;;
    *) stop "$group/$volume is not linear: $where" ;;
    esac
    base=${where##*:}
    base=${base%-*}
    run pvmove -n "$volume" "${where%%:*}:$((base + from - start))-$((base + to - start))" \
      "${nvm:-NVM}"
  done <<SEGMENTS
$segments
SEGMENTS
}

undo_extents() {
  if [ "$NVM_LOST" = yes ]; then stop "what was moved is lost with the NVM: restore a backup"; fi
  if left_group "$1" "$2"; then return 0; fi
  if is_dry || [ "$(lvm_value pvs pv_used "$2")" != 0 ]; then run pvmove "${2:-NVM}"; fi
  leave_group "$2"
}

# apply_cache LV NVM BYTES: CACHE=writethrough (safe), writeback or writecache (see above).
apply_cache() {
  join_group "$1" "$2" "$3"
  case $(lvm_value lvs segtype "$group/$volume") in
  cache | writecache)
    say "# $1 has its cache"
    return 0
    ;;
  esac
  if is_dry || [ -z "$(lvm_value lvs lv_name "$group/tracekit_cache")" ]; then
    run lvcreate --yes -n tracekit_cache -l 100%PVS "$group" "${2:-NVM}"
  fi
  if [ "$CACHE" = writecache ]; then
    run lvchange -an "$group/tracekit_cache"
    run lvconvert --yes --type writecache --cachevol tracekit_cache "$group/$volume"
  else
    run lvconvert --yes --type cache --cachemode "$CACHE" --cachevol tracekit_cache \
      "$group/$volume"
  fi
}

# lose_cache LV: takes away a write-through cache whose device is dead. Without that the volume is
# not there, so it must be named /dev/GROUP/VOLUME.
lose_cache() {
  group=$(lvm_value lvs vg_name "$1") volume=$(lvm_value lvs lv_name "$1")
  if [ -z "$volume" ]; then
    is_dry || stop "there is no volume $1: name it in the variable as /dev/GROUP/VOLUME"
    group=GROUP volume=VOLUME
  fi
  case $(lvm_value lvs segtype "$group/$volume") in
  cache | writecache) run lvconvert --yes --force --uncache "$group/$volume" ;;
  *) if is_dry; then run lvconvert --yes --force --uncache "$group/$volume"; fi ;;
  esac
  run vgreduce --removemissing "$group"
  run lvchange -ay "$group/$volume"
}

undo_cache() {
  if [ "$NVM_LOST" = yes ]; then
    lose_cache "$1"
    return 0
  fi
  if left_group "$1" "$2"; then return 0; fi
  case $(lvm_value lvs segtype "$group/$volume") in
  cache | writecache) run lvconvert --yes --uncache "$group/$volume" ;;
  *) if is_dry; then run lvconvert --yes --uncache "$group/$volume"; fi ;;
  esac
  if is_dry || [ -n "$(lvm_value lvs lv_name "$group/tracekit_cache")" ]; then
    run lvremove --yes "$group/tracekit_cache"
  fi
  leave_group "$2"
}
