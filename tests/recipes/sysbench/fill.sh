#!/bin/sh
# Makes the database: four tables of so many rows each.
. ./server.sh
mariadb-install-db --no-defaults --user=root --datadir="$LAB_FS/db" --skip-test-db \
  --auth-root-authentication-method=normal >/dev/null || exit
start_server
ask 'create database bank' || exit
oltp --table-size="${1:-10000}" prepare >/dev/null || exit
stop_server
