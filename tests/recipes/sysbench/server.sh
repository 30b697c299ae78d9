# To be read by the other scripts: a MariaDB whose data lie on the traced file system, every commit
# durable in the redo log and in the binary log, as a server that others replicate from keeps them.
socket=/tmp/server.socket
data=$LAB_FS/db

ask() {
  mariadb --no-defaults --socket="$socket" -e "$1"
}

start_server() {
  mariadbd --no-defaults --user=root --datadir="$data" --socket="$socket" \
    --pid-file=/tmp/server.pid --skip-networking --skip-name-resolve \
    --innodb-buffer-pool-size=32M --innodb-log-file-size=48M --innodb-flush-method=fsync \
    --innodb-flush-log-at-trx-commit=1 --log-bin=binlog --sync-binlog=1 2>/tmp/server.log &
  for _ in $(seq 120); do
    ask 'select 1' >/dev/null 2>&1 && return
    sleep 0.5
  done
  cat /tmp/server.log >&2
  exit 1
}

stop_server() {
  ask shutdown && wait
}

oltp() {
  sysbench oltp_read_write --db-driver=mysql --mysql-socket="$socket" --mysql-user=root \
    --mysql-db=bank --tables=4 --rand-type=pareto "$@"
}
