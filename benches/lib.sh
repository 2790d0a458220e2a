# Shared by the demo and the benchmarks: a throw-away server, and psql on it. Sourced, not run.
#
#   start_server PG_CONFIG [name=value …]    starts a server, gone when the script ends however it ends
#   sql …                                    psql on it: no psqlrc, stops at the first error, bare values
#   restart_server                           stops it, and starts it with the same settings
#   step TEXT / done_step                    one line of progress with the seconds it took
#
# The server listens on a Unix socket in its own directory only. The directory is made under ${TMPDIR:-/tmp}.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
server_dir=
die() { printf '%s\n' "$*" >&2; exit 1; }

# PostgreSQL refuses to run as root: there its programs run as the user postgres. `su` may set a low limit of open files
# (1,024), which the server then keeps below max_files_per_process.
as_server_user() {
    if [ "$(id -u)" = 0 ]; then
        (cd / && su postgres -s /bin/bash -c "ulimit -S -n $(ulimit -H -n) && $(printf '%q ' "$@")")
    else
        "$@"
    fi
}

stop_server() {
    trap - EXIT INT TERM HUP
    [ -n "$server_dir" ] || return 0
    as_server_user "$bin/pg_ctl" -D "$server_dir/data" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$server_dir"
}

start_server() {
    local pg_config=$1 setting; shift
    bin=$("$pg_config" --bindir)
    if [ "$(id -u)" = 0 ] && ! id postgres >/dev/null 2>&1; then
        die "PostgreSQL does not run as root and there is no user postgres; create it or run as another user"
    fi
    trap 'status=$?; stop_server; exit $status' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
    server_dir=$(mktemp -d "${TMPDIR:-/tmp}/pg_skip.XXXXXX")
    [ "$(id -u)" != 0 ] || chown postgres "$server_dir"
    as_server_user "$bin/initdb" -D "$server_dir/data" -U postgres -A trust -E UTF8 --locale=C --no-sync \
        >"$server_dir/initdb.log" 2>&1 || { cat "$server_dir/initdb.log" >&2; die "initdb failed"; }
    server_options="-c listen_addresses='' -c unix_socket_directories='$server_dir'"
    for setting in "$@"; do server_options+=" -c $setting"; done
    run_server
    export PGHOST=$server_dir PGUSER=postgres PGDATABASE=postgres PGPORT=5432
    unset PGSERVICE PGPASSWORD PGOPTIONS
}

run_server() {
    local log=$server_dir/data/server.log
    as_server_user "$bin/pg_ctl" -D "$server_dir/data" -w -l "$log" -o "$server_options" start >/dev/null ||
        { cat "$log" >&2; die "the server did not start"; }
}

restart_server() {
    as_server_user "$bin/pg_ctl" -D "$server_dir/data" -w -m fast stop >/dev/null
    run_server
}

sql() { "$bin/psql" -X -v ON_ERROR_STOP=1 -qAt "$@"; }

step() { printf '%-64s' "$1 …" >&2; step_start=$SECONDS; }
done_step() { printf '%5d s\n' $((SECONDS - step_start)) >&2; }

# Runs twenty_million.sql, showing how far it is.
load_events() {
    local rows=$1 line part=0
    step "loading $rows rows"
    "$bin/psql" -X -v ON_ERROR_STOP=1 -v rows="$rows" -f "$here/twenty_million.sql" | while read -r line; do
        [ -t 2 ] || continue
        case $line in INSERT*) part=$((part + 1)); printf '\r%-64s' "loading $rows rows … $((part * 5)) %" >&2 ;; esac
    done
    done_step
}

# shared_buffers for the table and its indexes: as asked, but at most 40 % of the machine's memory. In megabytes.
buffers_mb() {
    local wanted=$1 memory
    memory=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo 2>/dev/null || echo 4096)
    echo $((wanted < memory * 2 / 5 ? wanted : memory * 2 / 5))
}

# The machine, in a line of Markdown, and its parts.
processor() { awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo 2>/dev/null || uname -m; }
memory_gb() { awk '/^MemTotal/ { print int($2 / 1048576 + 0.5) }' /proc/meminfo 2>/dev/null || echo '?'; }
system() { . /etc/os-release 2>/dev/null && echo "$PRETTY_NAME" || uname -sr; }
machine() { printf '%s, %s processors, %s GB of memory, %s' "$(processor)" "$(nproc)" "$(memory_gb)" "$(system)"; }

# context NAME VALUE…: what the figures depend on, for the tables and the JSON.
context() {
    while [ $# -ge 2 ]; do
        sql -v name="$1" -v value="$2" <<<"INSERT INTO bench.context VALUES (:'name', :'value')"
        shift 2
    done
}

# What every run notes. The revision is that of the source tree, with a + if files in it have changed.
common_context() {
    local revision
    revision=$(git -C "$here/.." describe --always --dirty=+ --abbrev=12 2>/dev/null || echo unknown)
    context date "$(date -u +%F)" revision "$revision" server "$(versions)" \
        pg_skip "$(sql -c "SELECT extversion FROM pg_extension WHERE extname = 'pg_skip'")" \
        processor "$(processor)" processors "$(nproc)" memory_gb "$(memory_gb)" system "$(system)" "$@"
}

# versions EXTENSION…: the versions of the server and of its extensions, as one line.
versions() {
    local extension
    printf '%s' "$(sql -c "SELECT split_part(version(), ' on ', 1)")"
    for extension in "$@"; do
        printf ', %s %s' "$extension" "$(sql -c "SELECT extversion FROM pg_extension WHERE extname = '$extension'")"
    done
}

# The statement that creates a variant's index; the column's filters hold at most distinct values a BRIN range of 32
# pages.
create_index() {
    local variant=$1 table=$2 column=$3 distinct=$4
    case $variant in
        btree | hash) echo "CREATE INDEX bench_index ON $table USING $variant ($column)" ;;
        bloom)    local cast
                  cast=$(sql -c "SELECT bench.bloom_cast('$table.$column')")
                  echo "CREATE INDEX bench_index ON $table USING bloom (($column$cast)) WITH (length = 80, col1 = 8)" ;;
        brin_default) echo "CREATE INDEX bench_index ON $table USING brin ($column $(brin_class "$table" "$column"))" ;;
        brin)     echo "CREATE INDEX bench_index ON $table USING brin ($column $(brin_class "$table" "$column")
                        (n_distinct_per_range = $distinct, false_positive_rate = 0.01)) WITH (pages_per_range = 32)" ;;
        brin_tuned) create_index brin "$table" "$column" "$distinct" | sed 's/rate = 0.01/rate = 0.0001/' ;;
        brin_on)  create_index brin "$table" "$column" "$distinct" |
                      sed 's/pages_per_range = 32/&, autosummarize = on/' ;;
        skip)     echo "CREATE INDEX bench_index ON $table USING skip ($column)" ;;
        skip_off) echo "CREATE INDEX bench_index ON $table USING skip ($column) WITH (autosummarize = off)" ;;
        filters)  echo "CREATE INDEX bench_index ON $table USING skip ($column) WITH (layout = filters)" ;;
        filters_off)
                  echo "CREATE INDEX bench_index ON $table USING skip ($column)
                        WITH (layout = filters, autosummarize = off)" ;;
        excluded) echo "CREATE INDEX bench_index ON $table USING btree ($column) WHERE id < 0" ;;
        none)     echo "SELECT" ;;
        *)        die "no such variant: $variant" ;;
    esac
}

brin_class() {
    sql -c "SELECT typname || '_bloom_ops' FROM pg_attribute JOIN pg_type t ON t.oid = atttypid
            WHERE attrelid = '$1'::regclass AND attname = '$2'"
}

# start_growing_server PG_CONFIG: a server for tables that grow by inserts, with the table of twenty_million.sql, which
# has no rows yet, and growth.sql. Its settings are in $settings.
start_growing_server() {
    settings=(shared_buffers="$(buffers_mb 8192)MB" maintenance_work_mem=256MB max_wal_size=4GB min_wal_size=1GB
              checkpoint_timeout=1h synchronous_commit=off autovacuum=off jit=off max_parallel_workers_per_gather=0
              max_parallel_maintenance_workers=0)
    start_server "$1" "${settings[@]}"
    sql -c 'CREATE EXTENSION pg_skip'
    sql -f "$here/lib.sql"
    sql -v rows=0 -f "$here/twenty_million.sql" >/dev/null
    sql -f "$here/growth.sql"
}

# settings_in_lines: the server's settings as code in an item of a list, in lines of at most 120 characters.
settings_in_lines() { printf '%s\n' "\`${settings[*]}\`" | fold -s -w 110 | sed 's/ *$//; 2,$s/^/  /'; }

# millions ROWS: in words.
millions() { printf '%s million' "$(awk "BEGIN { print $1 / 1000000 }")"; }

# How a variant is called in tables.
title() { sql -c "SELECT title FROM bench.variant WHERE variant = '$1'"; }
