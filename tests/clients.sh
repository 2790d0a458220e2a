#!/usr/bin/env bash
# Runs the programs of docs/clients.md against a server that is gone afterwards: each must print a plan with a Skip
# Index Scan. Their packages are fetched into target/clients by pip, npm, and apt or mvn.
#
#   clients.sh PG_CONFIG [NAME…]      the names behind the languages: psycopg sqlalchemy django node jdbc
#
# A client whose tools or packages cannot be had is left out, and said to be.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../benches/lib.sh
. "$here/../benches/lib.sh"
[ $# -ge 1 ] || die "usage: clients.sh PG_CONFIG [NAME…]"
pg_config=$1; shift
page=$(cd "$(dirname "$0")/.." && pwd)/docs/clients.md
mkdir -p "$(dirname "$page")/../target/clients"
work=$(cd "$(dirname "$page")/../target/clients" && pwd)
jdbc=42.7.7
names=("$@")
[ $# != 0 ] || names=(psycopg sqlalchemy django node jdbc)

block() { awk -v head="^\`\`\`[a-z]* ?$1\$" '$0 ~ head && !n { n = 1; next } /^```/ { if (n == 1) exit } n' "$page"; }
python_with() { # python_with PACKAGE…: a Python that has them
    [ -x "$work/venv/bin/python" ] || python3 -m venv "$work/venv" >&2 || return 1
    "$work/venv/bin/pip" install -q --disable-pip-version-check "$@" >&2
}
# The driver from Debian's package, which is unpacked and not installed, or from Maven's repository.
jdbc_driver() {
    if command -v apt-get >/dev/null; then
        (cd "$work" && apt-get download -q libpostgresql-jdbc-java &&
            dpkg-deb -x libpostgresql-jdbc-java_*.deb unpacked && cp unpacked/usr/share/java/postgresql.jar .)
    else
        mvn -q dependency:copy -Dartifact="org.postgresql:postgresql:$jdbc" -DoutputDirectory="$work" &&
            mv "$work/postgresql-$jdbc.jar" "$work/postgresql.jar"
    fi
}
prepare() {
    case $1 in
        psycopg) python_with 'psycopg[binary]' ;;
        sqlalchemy) python_with 'psycopg[binary]' sqlalchemy alembic ;;
        django) python_with 'psycopg[binary]' django ;;
        node) command -v npm >/dev/null && npm install --silent --no-fund --no-audit --prefix "$work" pg >&2 ;;
        jdbc) command -v javac >/dev/null && { [ -s "$work/postgresql.jar" ] || jdbc_driver >&2; } ;;
        *) die "docs/clients.md has no program $1" ;;
    esac
}
run() {
    case $1 in
        node) block node >"$work/visits.js" && node "$work/visits.js" ;;
        jdbc) block jdbc >"$work/Visits.java" && javac -d "$work" "$work/Visits.java" &&
                  java -cp "$work:$work/postgresql.jar" Visits ;;
        *) block "$1" >"$work/uses_$1.py" && "$work/venv/bin/python" "$work/uses_$1.py" ;;
    esac
}

# JDBC has no Unix sockets: a port that is free.
port=$(perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1")->sockport')
start_server "$pg_config" listen_addresses=127.0.0.1 port="$port"
export PGPORT=$port JDBC_URL="jdbc:postgresql://127.0.0.1:$port/postgres?user=postgres"
block sql >"$work/clients.sql"

passed=0 failed=0
for name in "${names[@]}"; do
    prepare "$name" || { echo "$name: left out, its tools or packages cannot be had here"; continue; }
    sql -c 'DROP TABLE IF EXISTS visits' -f "$work/clients.sql" >/dev/null 2>&1
    if said=$(run "$name" 2>&1) && [[ $said == *'Skip Index Scan'* ]]; then
        passed=$((passed + 1))
        echo "$name: a Skip Index Scan"
        [ -z "${VERBOSE:-}" ] || sed 's/^/    /' <<<"$said"
    else
        failed=$((failed + 1))
        printf '%s: failed\n%s\n' "$name" "$said"
    fi
done
[ "$failed" = 0 ] && result=ok || result=FAILED
printf 'test result: %s. %d passed; %d failed\n' "$result" "$passed" "$failed"
[ "$failed" = 0 ]
