#!/usr/bin/env bash
# Sets up what building and testing pg_skip needs, once, outside the source tree.
#
#   setup.sh packages               compilers, clang, libclang (Debian as root: installs them; else names them)
#   setup.sh cargo-pgrx             the pinned cargo-pgrx
#   setup.sh cargo-deny             the pinned cargo-deny
#   setup.sh cargo-fuzz             the pinned cargo-fuzz
#   setup.sh server debian          prints the pg_config of a private copy of Debian's PostgreSQL
#   setup.sh hll                    adds Debian's hll to that copy: a peer of the type bloom, for its benchmark
#   setup.sh server assert          prints the pg_config of a PostgreSQL with assertions, from Debian's source, and with
#                                   that server's own tests
#   setup.sh server 16, server 17   the same of those versions; 16 is in Debian's archive at snapshot.debian.org only
#   setup.sh headers PG_CONFIG      that server's headers (Debian's server, as root: installs them; else says so)
#   setup.sh pgrx-home PG_CONFIG    makes that server known to pgrx and prints the directory for PGRX_HOME
#   setup.sh profile PG_CONFIG      prints the cargo profile to build with for that server
#   setup.sh cache                  prints where all this lies
#
# Everything lands under $PG_SKIP_CACHE (default: /var/cache/pg_skip for root, ~/.cache/pg_skip otherwise).
# The system's own PostgreSQL is copied, never changed: PostgreSQL's programs find their files relative to
# where they themselves lie, so a copy of the tree below /usr is a server of its own that tests may install into.
# PostgreSQL refuses to run as root; as root the servers run as the user postgres, who must be able to read the cache.
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=versions.env
. "$here/versions.env"
default_cache=${XDG_CACHE_HOME:-$HOME/.cache}/pg_skip
[ "$(id -u)" != 0 ] || default_cache=/var/cache/pg_skip
cache=${PG_SKIP_CACHE:-$default_cache}
mkdir -p "$cache"

say() { printf '%s\n' "pg_skip set-up: $*" >&2; }
die() { say "$*"; exit 1; }

# Runs a long command into a log: says every quarter of a minute how far it is; shows the end of the log if it fails.
quietly() {
    local log=$1 status=0 ticker began=$SECONDS; shift
    while sleep 15 >/dev/null 2>&1 && kill -0 "$$" 2>/dev/null; do
        say "$((SECONDS - began)) s: $(tail -n 1 "$log" 2>/dev/null | tail -c 70 || true)"
    done &
    ticker=$!
    "$@" >"$log" 2>&1 </dev/null || status=$?
    { kill "$ticker" && wait "$ticker"; } 2>/dev/null || true
    [ "$status" = 0 ] || { tail -n 30 "$log" >&2; die "failed: $* (whole log: $log)"; }
}

has_dpkg() { command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; }

# Makes sure that the named Debian packages are installed: installs them as root, says so otherwise.
require_packages() {
    local missing=() p
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' || missing+=("$p")
    done
    [ ${#missing[@]} = 0 ] && return 0
    [ "$(id -u)" = 0 ] || die "please install, as root: apt-get install ${missing[*]}"
    say "installing ${missing[*]}"
    quietly "$cache/apt-update.log" apt-get update
    for p in "${missing[@]}"; do
        apt-cache show "$p" >/dev/null 2>&1 ||
            die "this system's package sources have no $p (versions are chosen in pgrx-config/versions.env)"
    done
    # No cluster of its own: the tests start their own servers, and the system's must not appear by surprise. Servers
    # that are installed later by somebody else get theirs again.
    mkdir -p /etc/postgresql-common
    local settings=/etc/postgresql-common/createcluster.conf is_ours=
    [ -e "$settings" ] || { is_ours=1 && echo 'create_main_cluster = false' >"$settings"; }
    DEBIAN_FRONTEND=noninteractive quietly "$cache/apt-install.log" \
        apt-get install -y --no-install-recommends "${missing[@]}"
    [ -z "$is_ours" ] || rm -f "$settings"
}

# What compiles pgrx and its tools. Other systems than Debian: only looks whether the programs are there.
packages() {
    if has_dpkg; then
        require_packages build-essential clang libclang-dev pkg-config xz-utils ca-certificates
    else
        local missing=() program
        for program in cc make clang pkg-config xz; do
            command -v "$program" >/dev/null || missing+=("$program")
        done
        [ ${#missing[@]} = 0 ] || die "please install: ${missing[*]} (clang with its library libclang)"
    fi
    command -v cargo >/dev/null || die "please install Rust (cargo is not on the PATH)"
}

# The headers of a server. Debian has them in a package of their own.
headers() {
    local pg_config=$1 version
    [ ! -e "$("$pg_config" --includedir-server)/postgres.h" ] || return 0
    version=$("$pg_config" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
    has_dpkg && dpkg-query -S "$(readlink -f "$pg_config")" >/dev/null 2>&1 ||
        die "$pg_config has no server headers: install those of PostgreSQL $version"
    require_packages "postgresql-server-dev-$version"
}

cargo_tool() {
    local tool=$1 version=$2
    [ "$("$cache/bin/$tool" --version 2>/dev/null | awk '{print $NF}')" = "$version" ] && return 0
    say "building $tool $version (once, some minutes)"
    # They are run for seconds, so they need not be fast, and compile in half of the time.
    quietly "$cache/$tool.log" env -u CARGO_TARGET_DIR CARGO_PROFILE_RELEASE_OPT_LEVEL=1 \
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
        cargo install --locked --root "$cache" --version "$version" "$tool"
}

# As root the servers run as the user postgres: it must exist and be able to read what lies in the cache.
check_server_user() {
    [ "$(id -u)" = 0 ] || return 0
    id postgres >/dev/null 2>&1 ||
        die "PostgreSQL does not run as root and there is no user postgres;" \
            "create it (Debian's package postgresql-common does) or run as another user"
    su postgres -s /bin/sh -c "test -r '$1' && test -x '$1'" ||
        die "the user postgres cannot read $1: put the cache elsewhere (PG_SKIP_CACHE) or open its parent directories"
}

# The version of PostgreSQL that the metapackage postgresql stands for.
packaged_version() { apt-cache depends postgresql 2>/dev/null | sed -n 's/^ *Depends: postgresql-\([0-9]*\)$/\1/p'; }

# The version of Debian's server: PG_DEBIAN, or else the one that this release has.
debian_version() {
    local version=$PG_DEBIAN
    [ -n "$version" ] || version=$(packaged_version)
    if [ -z "$version" ] && [ "$(id -u)" = 0 ]; then
        quietly "$cache/apt-update.log" apt-get update
        version=$(packaged_version)
    fi
    case $version in
        15 | 16 | 17 | 18) echo "$version" ;;
        '') die "the package sources have no postgresql; please run, as root: apt-get update" ;;
        *) die "this system has PostgreSQL $version: install 15, 16, 17 or 18 with its server headers" \
               "and name its pg_config: make … PG_CONFIG=…" ;;
    esac
}

# Copies Debian's server into the cache, so that tests can install into it.
server_debian() {
    local root=$cache/debian/usr v
    local stamp have
    has_dpkg || die "this is not Debian: install PostgreSQL (15 to 18) with its server headers" \
        "and name its pg_config: make … PG_CONFIG=…"
    v=$(debian_version)
    require_packages "postgresql-$v" "postgresql-server-dev-$v"
    stamp=$(dpkg-query -W -f '${Package} ${Version} ' "postgresql-$v" "postgresql-server-dev-$v")
    have=$(cat "$cache/debian/stamp" 2>/dev/null || true)
    if [ "$stamp" != "$have" ]; then
        say "copying PostgreSQL $v to $root"
        rm -rf "$cache/debian"
        mkdir -p "$root/lib/postgresql" "$root/share/postgresql"
        cp -a "/usr/lib/postgresql/$v" "$root/lib/postgresql/"
        cp -aL "/usr/share/postgresql/$v" "$root/share/postgresql/"
        ln -s /usr/include "$root/include"
        echo "$stamp" >"$cache/debian/stamp"
    fi
    check_server_user "$root/lib/postgresql/$v/bin/postgres"
    echo "$root/lib/postgresql/$v/bin/pg_config"
}

# Puts Debian's hll beside the copied server's own extensions: a peer of the type bloom, for the benchmark.
hll() {
    local root=$cache/debian/usr v
    v=$(debian_version)
    server_debian >/dev/null
    require_packages "postgresql-$v-hll"
    cp -a "/usr/lib/postgresql/$v/lib/hll.so" "$root/lib/postgresql/$v/lib/"
    cp -aL "/usr/share/postgresql/$v/extension/"hll* "$root/share/postgresql/$v/extension/"
}

# The first Debian mirror that the system's own package sources name.
debian_mirror() {
    apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(LABEL)' |
        awk '$2 == "Debian" && $3 == "Debian" { print $1; exit }'
}

# Builds an assert-enabled server from a source package of Debian: fetch, configure, make, install.
# A server that was there before stays until the new one is built.
build_assert() {
    local version=$1 suite=$2 mirror=$3 prefix=$4 parts=$5 work=$cache/build-$1
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    has_dpkg && mirror=${mirror:-$(debian_mirror)} && [ -n "$mirror" ] && [ -e "$keyring" ] ||
        die "no Debian mirror in this system's package sources;" \
            "test on servers of your own: make server-tests PG_CONFIGS='…'"
    require_packages bison flex perl libreadline-dev zlib1g-dev libicu-dev liblz4-dev
    rm -rf "$work"
    mkdir -p "$work/lists/partial" "$work/archives/partial"
    # A mirror of one day in the past is no longer valid by its own account; it is signed all the same.
    printf 'deb-src [signed-by=%s check-valid-until=no] %s %s main\n' "$keyring" "$mirror" "$suite" \
        >"$work/sources.list"
    local apt=(apt-get -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
               -o "Dir::State::Lists=$work/lists" -o "Dir::Cache::Archives=$work/archives"
               -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
    cd "$work"
    say "fetching the source of PostgreSQL $version from $suite at $mirror"
    quietly fetch.log "${apt[@]}" update
    quietly source.log "${apt[@]}" source --download-only "postgresql-$version"
    local tarball
    tarball=$(find . -maxdepth 1 -name "postgresql-${version}_*.orig.tar.*" ! -name '*.asc' | head -n 1)
    mkdir src
    quietly unpack.log tar xvf "$tarball" -C src --strip-components 1
    # We may have been called by make; PostgreSQL's makefiles generate headers at the top level only.
    unset MAKELEVEL MAKEFLAGS MFLAGS
    cd src
    say "building PostgreSQL $version with assertions (once, some minutes): configure"
    quietly ../configure.log ./configure --prefix="$prefix" --enable-cassert --enable-debug --with-icu --with-lz4 \
        CFLAGS='-O1 -g'
    say "building PostgreSQL $version: make"
    quietly ../make.log make -j"$(nproc)"
    say "building PostgreSQL $version: install"
    rm -rf "$prefix"
    quietly ../install.log make -s install
    local module
    for module in $PG_ASSERT_CONTRIB; do
        quietly "../$module.log" make -s -C "contrib/$module" install
    done
    if [[ $parts == *suites* ]]; then
        say "building PostgreSQL $version: its own tests"
        quietly ../regress.log make -s -C src/test/regress
        quietly ../isolation.log make -s -C src/test/isolation
        mkdir "$prefix/suites"
        cp -r src/test/regress src/test/isolation "$prefix/suites/"
    fi
    echo "$parts" >"$prefix/complete"
    rm -rf "$work"
}

# An assert-enabled server of a version, from a suite of Debian; the mirror is the system's own unless one is named.
server_assert() {
    local version=$1 suite=$2 mirror=${3:-} prefix=$cache/assert-$1 parts=$PG_ASSERT_CONTRIB
    # The server's own tests run on the newest version only.
    [ "$version" != "$PG_ASSERT" ] || parts+=" suites"
    # Of what it consists: a server that was built with less is built again.
    [ "$(cat "$prefix/complete" 2>/dev/null)" = "$parts" ] ||
        (build_assert "$version" "$suite" "$mirror" "$prefix" "$parts")
    check_server_user "$prefix/bin/postgres"
    echo "$prefix/bin/pg_config"
}

# cargo-pgrx looks servers up in $PGRX_HOME/config.toml, which `cargo pgrx init` would write after building servers of
# its own. We have servers: write the file ourselves, one line a major version, the last server asked for winning. pgrx
# asks all of them, also those it does not build for: a server that was removed since must go.
pgrx_home() {
    local pg_config=$1 home=$cache/pgrx version
    version=$("$pg_config" --version | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p')
    [ -n "$version" ] || die "$pg_config is not a pg_config"
    mkdir -p "$home"
    local next line path
    next=$(mktemp "$home/config.XXXXXX")
    {
        echo '[configs]'
        { grep '^pg[0-9]* = ' "$home/config.toml" 2>/dev/null | grep -v "^pg$version = " | while IFS= read -r line; do
              path=${line#*\"}
              [ ! -x "${path%\"}" ] || printf '%s\n' "$line"
          done || true
          echo "pg$version = \"$pg_config\""; } | sort
    } >"$next"
    chmod 644 "$next"
    # A file that is newer makes cargo build pgrx and all that stands on it again.
    if cmp -s "$next" "$home/config.toml"; then rm "$next"; else mv "$next" "$home/config.toml"; fi
    echo "$home"
}

# A server with assertions is there to find faults, so the library has Rust's assertions too.
profile() {
    case " $("$1" --configure) " in
        *--enable-cassert*) echo checked ;;
        *) echo release ;;
    esac
}

case "$#:${1:-}:${2:-}" in
    1:packages:) packages ;;
    1:cargo-pgrx:) packages; cargo_tool cargo-pgrx "$PGRX_VERSION" ;;
    1:cargo-deny:) packages; cargo_tool cargo-deny "$CARGO_DENY_VERSION" ;;
    1:hll:) hll ;;
    1:cargo-fuzz:) packages; cargo_tool cargo-fuzz "$CARGO_FUZZ_VERSION" ;;
    2:server:debian) server_debian ;;
    2:server:assert) server_assert "$PG_ASSERT" "$PG_ASSERT_SUITE" ;;
    2:server:16) server_assert 16 "$PG_16_SUITE" "$PG_16_MIRROR" ;;
    2:server:17) server_assert 17 "$PG_17_SUITE" ;;
    2:headers:?*) headers "$2" ;;
    2:pgrx-home:?*) pgrx_home "$2" ;;
    2:profile:?*) profile "$2" ;;
    1:cache:) echo "$cache" ;;
    *) sed -n '2,20p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;;
esac
