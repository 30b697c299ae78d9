TOOLS="$TOOLS dmsetup lvchange lvconvert lvcreate lvremove lvs pvcreate pvmove pvremove pvs vgextend vgreduce vgs"

lvm_value() { "$1" --noheadings --nosuffix --units b -o "$2" "$3" 2>/dev/null | tr -d ' '; }

# find_volume LV: sets group and volume, of one that is not active, too.
find_volume() {
  group=GROUP volume=VOLUME
  if [ -z "$1" ] || [ -z "$(lvm_value lvs lv_name "$1")" ]; then
    if is_here "$1"; then stop "$1 is no logical volume"; fi
    is_dry || stop "there is no volume $1: name it in the variable as /dev/GROUP/VOLUME"
    return 1
  fi
  group=$(lvm_value lvs vg_name "$1")
  volume=$(lvm_value lvs lv_name "$1")
}

in_group() { [ -n "$1" ] && [ "$(lvm_value pvs vg_name "$1")" = "$group" ]; }

# check_group NVM BYTES: stops unless the NVM is in the group or can come into it.
check_group() {
  if ! is_here "$1" || in_group "$1"; then return 0; fi
  check_free "$1" LVM2_member "" "$2"
  if [ -n "$(lvm_value pvs vg_name "$1")" ]; then stop "$1 is of another volume group"; fi
}

# join_group NVM: it becomes a physical volume of the group.
join_group() {
  if in_group "$1"; then return 0; fi
  if is_dry || [ "$(kind_of "$1")" != LVM2_member ]; then run pvcreate "${1:-NVM}"; fi
  run vgextend "$group" "${1:-NVM}"
}

# left_group LV NVM: whether nothing is to be undone.
left_group() {
  if ! find_volume "$1" || is_dry || in_group "$2"; then return 1; fi
  say "# $2 is not in the group $group"
  if [ "$(kind_of "$2")" = LVM2_member ] && [ -z "$(lvm_value pvs vg_name "$2")" ]; then
    run pvremove "$2"
  fi
}

leave_group() {
  run vgreduce "$group" "${1:-NVM}"
  run pvremove "${1:-NVM}"
}

# check_extents LV NVM BYTES FIRST+COUNT...: stops for what would stop apply_extents on its way.
check_extents() {
  find_volume "$1" || return 0
  check_group "$2" "$3"
  if is_pvmove; then return 0; fi
  if lvs --noheadings -o segtype "$group/$volume" | grep -qv linear; then
    stop "$group/$volume is not linear: by hand"
  fi
  nvm=$2 count=0 next=0
  shift 3
  extent=$(lvm_value vgs vg_extent_size "$group")
  for range in "$@"; do
    first=$((${range%+*} / extent)) last=$(((${range%+*} + ${range#*+} - 1) / extent))
    count=$((count + last + 1 - (first > next ? first : next))) next=$((last + 1))
  done
  if is_here "$nvm"; then check_size "$nvm" $((count * extent + 1048576)); fi
}

is_pvmove() { [ -n "$(lvs -a --noheadings -o lv_name "$group" | grep pvmove)" ]; }

# apply_extents LV NVM BYTES FIRST+COUNT...: moves bytes from FIRST on, while the volume is in use.
# pvmove keeps its state in the group: what was cut goes on where it was.
apply_extents() {
  nvm=$2
  find_volume "$1" || true
  join_group "$2"
  shift 3
  if [ "$group" = GROUP ]; then
    say "+ pvmove -n VOLUME OLD:EXTENTS ${nvm:-NVM}, for bytes $*"
    return 0
  fi
  extent=$(lvm_value vgs vg_extent_size "$group")
  if is_pvmove; then run pvmove; fi
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

# check_cache LV NVM BYTES: stops for what would stop apply_cache on its way.
check_cache() {
  case $CACHE in
  writethrough | writeback) check_tools cache_check ;;
  writecache) ;;
  *) stop "CACHE=$CACHE: choose writethrough, writeback or writecache" ;;
  esac
  find_volume "$1" || return 0
  check_group "$2" "$3"
  case $(kind_of_volume) in
  linear | striped | raid* | cache | writecache) ;;
  *) stop "$group/$volume is $(kind_of_volume): LVM gives that no cache" ;;
  esac
}

kind_of_volume() { lvm_value lvs segtype "$group/$volume"; }

# apply_cache LV NVM BYTES: CACHE=writethrough (safe), writeback or writecache (see above). A cache
# is made write-through and changed when it is whole: what is cut has nothing that the volume lacks.
apply_cache() {
  find_volume "$1" || true
  activate_again "$1"
  join_group "$2"
  case $(kind_of_volume) in
  cache | writecache) say "# $1 has its cache" ;;
  *) make_cache "$2" ;;
  esac
  if [ "$CACHE" = writeback ] && { is_dry || [ "$(mode_of_cache)" = writethrough ]; }; then
    run lvchange --yes --cachemode writeback "$group/$volume"
  fi
}

mode_of_cache() { lvm_value lvs cache_mode "$group/$volume"; }

make_cache() {
  if is_dry || [ -z "$(lvm_value lvs lv_name "$group/tracekit_cache")" ]; then
    run lvcreate --yes -n tracekit_cache -l 100%PVS "$group" "${1:-NVM}"
  fi
  if [ "$CACHE" = writecache ]; then
    run lvchange -an "$group/tracekit_cache"
    run lvconvert --yes --type writecache --cachevol tracekit_cache "$group/$volume"
  else
    run lvconvert --yes --type cache --cachemode writethrough --cachevol tracekit_cache \
      "$group/$volume"
    # Until a flush it is as activate_again finds it.
    run sync "/dev/$group/$volume"
  fi
}

# activate_again: what the kernel writes for a new cache before its first commit cache_check takes for
# damaged (thin-provisioning-tools 0.9.0), so LVM activates no volume whose power went right then. Such
# a cache is empty and write-through: it is taken off.
activate_again() {
  if is_dry || [ -n "$(lvm_value lvs lv_active "$group/$volume")" ]; then return 0; fi
  if run lvchange -ay "$group/$volume"; then return 0; fi
  if [ "$(mode_of_cache)" != writethrough ]; then
    stop "$group/$volume cannot be activated, and its cache may hold what it lacks: see lvmcache(7)"
  fi
  for part in cmeta cdata; do
    left=$(printf '%s' "$group" | sed 's/-/--/g')-tracekit_cache_cvol-$part
    if dmsetup info "$left" >/dev/null 2>&1; then run dmsetup remove "$left"; fi
  done
  run lvconvert --yes --uncache "$group/$volume"
  run lvchange -ay "$group/$volume"
  say "# $1 is active again: mount it"
}

# lose_cache LV: takes away a write-through cache whose device is dead. Without that the volume is
# not there, so it must be named /dev/GROUP/VOLUME.
lose_cache() {
  find_volume "$1" || true
  case $(kind_of_volume) in
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
  activate_again "$1"
  case $(kind_of_volume) in
  cache | writecache) run lvconvert --yes --uncache "$group/$volume" ;;
  *) if is_dry; then run lvconvert --yes --uncache "$group/$volume"; fi ;;
  esac
  if is_dry; then run lvremove --yes "$group/tracekit_cache"; fi
  # An lvconvert that was cut leaves what was the cache with its own names.
  if ! is_dry && [ -n "$(lvm_value lvs lv_name "$group/${volume}_corig")" ]; then
    run lvconvert --yes --uncache "$group/${volume}_corig"
  fi
  for left in tracekit_cache_cvol tracekit_cache; do
    if ! is_dry && [ -n "$(lvm_value lvs lv_name "$group/$left")" ]; then
      run lvremove --yes "$group/$left"
    fi
  done
  leave_group "$2"
}
