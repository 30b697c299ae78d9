#!/bin/sh
# Eight clients read and change rows for so many seconds; the server is started and shut down, too.
. ./server.sh
start_server
oltp --table-size="${1:-10000}" --threads=8 --time="${2:-60}" --rand-seed=1 run || exit
stop_server
