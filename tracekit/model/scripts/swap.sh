TOOLS="$TOOLS mkswap swapoff swapon"

swap_line="LABEL=tracekit-swap none swap sw,nofail,pri=100 0 0"

in_swaps() {
  [ -n "$1" ] && awk 'NR > 1 { print $1 }' /proc/swaps | grep -qxF -e "$1" -e "$(readlink -f "$1")"
}

check_swap() {
  if ! in_swaps "$1"; then check_free "$1" swap tracekit-swap "$2"; fi
}

# apply_swap NVM BYTES: the kernel takes the swap area of the highest priority first.
apply_swap() {
  if in_swaps "$1"; then
    say "# $1 is in use as swap"
  else
    if ! is_here "$1" || [ -z "$(kind_of "$1")" ]; then
      run mkswap -L tracekit-swap "${1:-NVM}"
    fi
    run swapon -p 100 "${1:-NVM}"
  fi
  set_fstab add "$swap_line"
}

undo_swap() {
  set_fstab drop "$swap_line"
  if is_dry || in_swaps "$1"; then run swapoff "${1:-NVM}"; fi
}
