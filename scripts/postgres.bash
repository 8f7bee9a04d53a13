# shellcheck shell=bash Runs commands with a temporary PostgreSQL server. Sourced by scripts that define
# `as_root`, `apt_install` and `die`.

# Prevents the Debian package from creating a database and starting a server.
need_postgres() {
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && return 0
    as_root mkdir -p /etc/postgresql-common
    [[ -e /etc/postgresql-common/createcluster.conf ]] ||
        echo 'create_main_cluster = false' | as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
    apt_install postgresql
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || die "initdb is missing although postgresql is installed"
}

# with_postgres COMMAND: runs the command with a temporary server. FRONTDESK_TEST_POSTGRES is its URL with a
# socket, FRONTDESK_TEST_POSTGRES_TLS its URL with TLS and a password.
with_postgres() (
    command -v openssl >/dev/null || apt_install openssl
    local bin folder port attempt
    bin=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n 1)
    folder=$(mktemp -d)
    # PostgreSQL refuses to run as root.
    local as=()
    if ((EUID == 0)); then
        as=(setpriv --reuid=postgres --regid=postgres --clear-groups --)
        chown postgres "$folder"
    fi
    (
        cd "$folder"
        "${as[@]}" "$bin/initdb" --pgdata="$folder/data" --username=frontdesk --auth=trust \
            --encoding=UTF8 --locale=C.UTF-8 >"$folder/log"
        printf '%s\n' 'local all all trust' 'hostssl all all 127.0.0.1/32 scram-sha-256' >"$folder/data/pg_hba.conf"
        "${as[@]}" openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
            -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE \
            -keyout "$folder/data/key.pem" -out "$folder/data/certificate.pem" 2>/dev/null
        cp "$folder/data/certificate.pem" "$folder/certificate.pem"
    ) || { cat "$folder/log"; exit 1; }
    # Tries other ports if one is taken.
    for ((attempt = 1; ; attempt++)); do
        port=$(shuf -i 20000-30000 -n 1)
        rm -f "$folder/data/log"
        (cd "$folder" && "${as[@]}" "$bin/pg_ctl" --pgdata="$folder/data" --log="$folder/data/log" --wait --timeout=600 --silent \
            --options="-c listen_addresses=127.0.0.1 -p $port -c unix_socket_directories='$folder' -c max_connections=300 -c ssl=on \
            -c ssl_cert_file=certificate.pem -c ssl_key_file=key.pem" start) && break
        if ((attempt == 20)) || ! grep -q 'could not bind' "$folder/data/log"; then
            cat "$folder/data/log"
            exit 1
        fi
    done
    trap '"${as[@]}" "$bin/pg_ctl" --pgdata="$folder/data" --mode=immediate --silent stop; rm -rf "$folder"' EXIT
    "$bin/createdb" --host="$folder" --port="$port" --username=frontdesk frontdesk
    "$bin/psql" --host="$folder" --port="$port" --username=frontdesk --quiet \
        --command="ALTER ROLE frontdesk PASSWORD 'hunter2'" frontdesk
    export FRONTDESK_TEST_POSTGRES="postgres:///frontdesk?host=$folder&port=$port&user=frontdesk"
    export FRONTDESK_TEST_POSTGRES_TLS="postgres://frontdesk:hunter2@localhost:$port/frontdesk?sslmode=verify-full&sslrootcert=$folder/certificate.pem"
    PATH=$bin:$PATH "$@"
)

need_pgbouncer() {
    [[ -x /usr/sbin/pgbouncer ]] || apt_install pgbouncer
    [[ -x /usr/sbin/pgbouncer ]] || die "pgbouncer is missing although its package is installed"
}

# with_pooler SESSIONS COMMAND: for a command of `with_postgres`. Runs the command with a PgBouncer that gives
# each transaction one of SESSIONS sessions of the server. FRONTDESK_TEST_POSTGRES is its URL, 
# FRONTDESK_TEST_POSTGRES_DIRECT that of the server, and FRONTDESK_TEST_POOLER_PID its process.
with_pooler() (
    local sessions=$1 folder host port as=() process
    shift
    folder=$(mktemp -d)
    if ((EUID == 0)); then
        as=(setpriv --reuid=postgres --regid=postgres --clear-groups --)
        chown postgres "$folder"
    fi
    [[ $FRONTDESK_TEST_POSTGRES =~ host=([^&]+)\&port=([0-9]+) ]]
    host=${BASH_REMATCH[1]} port=${BASH_REMATCH[2]}
    printf '%s\n' '[databases]' "frontdesk = host=$host port=$port user=frontdesk" \
        '[pgbouncer]' 'listen_addr =' 'listen_port = 6432' "unix_socket_dir = $folder" 'auth_type = any' \
        'pool_mode = transaction' "default_pool_size = $sessions" 'max_client_conn = 1000' >"$folder/pgbouncer.ini"
    (cd "$folder" && exec "${as[@]}" /usr/sbin/pgbouncer --quiet pgbouncer.ini) >"$folder/log" 2>&1 &
    process=$!
    trap 'kill "$process" 2>/dev/null; rm -rf "$folder"' EXIT
    export FRONTDESK_TEST_POOLER_PID=$process
    export FRONTDESK_TEST_POSTGRES_DIRECT=$FRONTDESK_TEST_POSTGRES
    export FRONTDESK_TEST_POSTGRES="postgres:///frontdesk?host=$folder&port=6432&user=frontdesk"
    local attempt
    for ((attempt = 1; ; attempt++)); do
        psql "$FRONTDESK_TEST_POSTGRES" -qAtc 'SELECT 1' >/dev/null 2>&1 && break
        ((attempt < 100)) || { cat "$folder/log"; die "PgBouncer does not answer"; }
        sleep 0.2
    done
    "$@"
)
