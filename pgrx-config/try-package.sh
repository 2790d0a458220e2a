#!/usr/bin/env bash
# Unpacks a package that package.sh has built over a copy of the server, and uses the extension there: the version, an
# index, a Skip Index Scan. Neither the system's server nor that of PG_CONFIG is changed.
#
#   try-package.sh PG_CONFIG FILE.deb
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=../benches/lib.sh
. "$here/../benches/lib.sh"
[ $# = 2 ] || die "usage: try-package.sh PG_CONFIG FILE.deb"
pg_config=$1 package=$2
major=$("$pg_config" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
from=${pg_config%/lib/postgresql/"$major"/bin/pg_config}
[ "$from" != "$pg_config" ] || die "$pg_config is not in directories like Debian's"

copy=$(mktemp -d "${TMPDIR:-/tmp}/pg_skip_package.XXXXXX")
chmod 755 "$copy"
mkdir -p "$copy/usr/lib/postgresql" "$copy/usr/share/postgresql"
cp -a "$from/lib/postgresql/$major" "$copy/usr/lib/postgresql/"
cp -aL "$from/share/postgresql/$major" "$copy/usr/share/postgresql/"
rm -f "$copy/usr/lib/postgresql/$major/lib/pg_skip.so" "$copy/usr/share/postgresql/$major/extension"/pg_skip*
dpkg-deb -x "$package" "$copy"
start_server "$copy/usr/lib/postgresql/$major/bin/pg_config"
trap 'status=$?; stop_server; rm -rf "$copy"; exit $status' EXIT

version=$(dpkg-deb -f "$package" Version)
version=${version%-*}
[ "$(dpkg-deb -f "$package" Package)" = "postgresql-$major-pg-skip" ] || die "the package has another name"
sql -c 'CREATE EXTENSION pg_skip' \
    -c "CREATE TABLE t AS SELECT md5(i::text)::uuid AS k, repeat('x', 100) AS pad FROM generate_series(1, 50000) AS i" \
    -c 'CREATE INDEX t_skip ON t USING skip (k)' -c 'ANALYZE t'
[ "$(sql -c 'SELECT library, extension FROM skip_version()')" = "$version|$version" ] ||
    die "the version is not $version"
plan=$(sql -c "EXPLAIN (ANALYZE) SELECT * FROM t WHERE k = md5('7')::uuid")
case $plan in
    *'Custom Scan (Skip Index Scan) on t'*'rows=1 '* | *'Custom Scan (Skip Index Scan) on t'*'rows=1.00 '*) ;;
    *) die "no Skip Index Scan that finds the row: $plan" ;;
esac
[ -z "$(sql -c "SELECT * FROM skip_index_verify('t_skip')")" ] || die "the index is not sound"
echo "$(basename "$package"): CREATE EXTENSION, an index and a Skip Index Scan work on $(sql -c 'SHOW server_version')"
