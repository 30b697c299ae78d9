#!/bin/sh
# Makes the database, four tables of so many rows each, elsewhere: each of its flushes takes a disk's time.
. ./server.sh
data=/dev/shm/db
mariadb-install-db --no-defaults --user=root --datadir="$data" --skip-test-db \
  --auth-root-authentication-method=normal >/dev/null || exit
start_server
ask 'create database bank' || exit
oltp --table-size="${1:-10000}" prepare >/dev/null || exit
stop_server
cp -a "$data" "$LAB_FS/db" && rm -r "$data"
