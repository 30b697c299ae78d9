#!/bin/sh
# Loads the site, once with an empty cache and again as often as asked for, each time by a new
# browser. Profile and cache are on the traced file system, as the site is.
python3 pages.py serve "$LAB_FS/site" 8080 2>/dev/null &
server=$!
mkdir "$LAB_FS/profile"
cp user.js "$LAB_FS/profile"
for _ in $(seq "${1:-2}"); do
  firefox-esr --headless --no-remote --profile "$LAB_FS/profile" --screenshot /tmp/page.png \
    http://127.0.0.1:8080/index.html 2>/tmp/talk || exit
  [ -s /tmp/page.png ] || exit 1
  rm /tmp/page.png
done
kill "$server"
