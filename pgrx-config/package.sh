#!/usr/bin/env bash
# Builds a Debian package of pg_skip, and prints its path.
#
#   package.sh PG_CONFIG      for the major version of this server, which is Debian's or PGDG's, or a copy of it
#
# The package is target/package/postgresql-NN-pg-skip_VERSION_ARCHITECTURE.deb. It has the three files that PostgreSQL
# reads, in Debian's directories, and depends on Debian's (or PGDG's) package of the server.
#
#   PROFILE=release           a cargo profile
#   DEB_MAINTAINER='Name <address>'
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
die() { printf '%s\n' "package.sh: $*" >&2; exit 1; }

[ $# = 1 ] || die "usage: package.sh PG_CONFIG"
for program in dpkg-deb dpkg-shlibdeps; do
    command -v "$program" >/dev/null || die "there is no $program: packages are built on Debian (package dpkg-dev)"
done
pg_config=$(command -v "$1") || die "there is no program $1"
pg_config=$(cd "$(dirname "$pg_config")" && pwd)/$(basename "$pg_config")
major=$("$pg_config" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
# A server that is compiled in this way lends extensions other structs than Debian's.
case $("$pg_config" --configure) in
    *--enable-cassert*) die "$pg_config belongs to a server with assertions: name that of Debian's server" ;;
esac
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../Cargo.toml" | head -n 1)
architecture=$(dpkg --print-architecture)
package=postgresql-$major-pg-skip

"$here/setup.sh" cargo-pgrx
PGRX_HOME=$("$here/setup.sh" pgrx-home "$pg_config")
PATH=$("$here/setup.sh" cache)/bin:$PATH
export PGRX_HOME PATH CARGO_TARGET_DIR="$here/../target/pg$major"
CARGO_TARGET_DIR=$(mkdir -p "$CARGO_TARGET_DIR" && cd "$CARGO_TARGET_DIR" && pwd)
out=$(mkdir -p "$here/../target/package" && cd "$here/../target/package" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$here/.."
cargo pgrx package --package pg_skip --pg-config "$pg_config" --profile "${PROFILE:-release}" \
    --no-default-features --features "pg$major" --out-dir "$work/made" >&2

# From wherever the pg_config's directories are to Debian's.
root=$work/root
libraries=usr/lib/postgresql/$major/lib extensions=usr/share/postgresql/$major/extension doc=usr/share/doc/$package
mkdir -p "$root/DEBIAN" "$root/$libraries" "$root/$extensions" "$root/$doc"
find "$work/made" -name 'pg_skip.so' -exec install -m 644 -t "$root/$libraries" {} +
find "$work/made" \( -name 'pg_skip.control' -o -name 'pg_skip--*.sql' \) \
    -exec install -m 644 -t "$root/$extensions" {} +
for needed in "$libraries/pg_skip.so" "$extensions/pg_skip.control" "$extensions/pg_skip--$version.sql"; do
    [ -s "$root/$needed" ] || die "cargo pgrx package made no $needed"
done
strip --strip-unneeded "$root/$libraries/pg_skip.so"
install -m 644 LICENSE "$root/$doc/copyright"
gzip -9nc CHANGELOG.md >"$root/$doc/changelog.gz"

# What the library needs of the system, in versions of packages. dpkg-shlibdeps wants a source package around it.
mkdir -p "$work/debian"
printf 'Source: pg-skip\n\nPackage: %s\nArchitecture: any\n' "$package" >"$work/debian/control"
needs=$(cd "$work" && dpkg-shlibdeps -O "$root/$libraries/pg_skip.so" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
cat >"$root/DEBIAN/control" <<CONTROL
Package: $package
Version: $version-1
Architecture: $architecture
Maintainer: ${DEB_MAINTAINER:-pg_skip contributors}
Section: database
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f 1)
Depends: postgresql-$major${needs:+, $needs}
Description: data-skipping indexes for PostgreSQL $major
 An index access method for large tables with scattered values, such as ids,
 hashes and tokens. It tells which block ranges of a table cannot hold a value,
 so that a query reads only the others. It takes a fraction of the space of a
 btree.
CONTROL
(cd "$root" && find usr -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"

file=$out/${package}_$version-1_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$file" >&2
echo "$file"
