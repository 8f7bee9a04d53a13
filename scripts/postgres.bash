# shellcheck shell=bash
# A PostgreSQL server of one's own, for as long as a command runs. Sourced by scripts that have `as_root`, `apt_install` and `die`.

# Debian would make a database and start a server for it at once; nobody here needs that one.
need_postgres() {
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && return 0
    as_root mkdir -p /etc/postgresql-common
    [[ -e /etc/postgresql-common/createcluster.conf ]] ||
        echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
    apt_install postgresql
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || die "initdb is missing although postgresql is installed"
}

# with_postgres COMMAND: runs it while there is a server in a folder of its own, which FRONTDESK_TEST_POSTGRES names. It ends with the command.
with_postgres() (
    local bin folder
    bin=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n 1)
    folder=$(mktemp -d)
    # It refuses to be run by root.
    local as=()
    if ((EUID == 0)); then
        as=(setpriv --reuid=postgres --regid=postgres --clear-groups --)
        chown postgres "$folder"
    fi
    (
        cd "$folder"
        "${as[@]}" "$bin/initdb" --pgdata="$folder/data" --username=frontdesk --auth=trust --encoding=UTF8 --locale=C.UTF-8 >"$folder/log"
        "${as[@]}" "$bin/pg_ctl" --pgdata="$folder/data" --log="$folder/data/log" --wait --silent \
            --options="-c listen_addresses='' -c unix_socket_directories='$folder' -c max_connections=300" start
    ) || { cat "$folder/log" "$folder/data/log"; exit 1; }
    trap '"${as[@]}" "$bin/pg_ctl" --pgdata="$folder/data" --mode=immediate --silent stop; rm -rf "$folder"' EXIT
    "$bin/createdb" --host="$folder" --username=frontdesk frontdesk
    PATH=$bin:$PATH FRONTDESK_TEST_POSTGRES="postgres:///frontdesk?host=$folder&user=frontdesk" "$@"
)
