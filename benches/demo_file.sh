#!/usr/bin/env bash
# Loads a file of rows and columns into a server that is gone afterwards, asks skip_advise about each column, builds
# what it recommends, and shows what lookups cost without the index and with it.
#
#   demo_file.sh PG_CONFIG FILE
#
# FILE is text in columns, separated by commas, tabs, semicolons or "|", plain or compressed by xz, gzip, bzip2 or zstd.
# Separator, names of columns and types are found by looking at it.
#
#   HEADER=yes, HEADER=no     whether the first line has the names of the columns
#   ENCODING=latin1           the encoding of the text, if it is not UTF-8: one of PostgreSQL's names
#   ONLY=load                 stop after the table is loaded, and show the types
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# = 2 ] || die "usage: demo_file.sh PG_CONFIG FILE"
export PSQL_PAGER=''     # on a terminal, too, nobody has to press a key
file=$2
name=$(basename "$file")
encoding=${ENCODING:-UTF8}
header=${HEADER:-}
only=${ONLY:-}
case $header in ''|yes|no) ;; *) die "HEADER is yes or no" ;; esac
case $only in ''|load) ;; *) die "ONLY is load, or not set" ;; esac
[ -e "$file" ] || die "$file: there is no such file"
[ -f "$file" ] && [ -r "$file" ] || die "$file: cannot be read, or is no file"
[ -s "$file" ] || die "$name: is empty"

case $(head -c 6 "$file" | od -An -tx1 | tr -d ' \n') in
    fd377a585a00) unpack=(xz -dc) ;;
    1f8b*) unpack=(gzip -dc) ;;
    425a68*) unpack=(bzip2 -dc) ;;
    28b52ffd*) unpack=(zstd -dc) ;;
    504b0304*) die "$name: is a zip archive: unpack it" ;;
    *) unpack=(cat) ;;
esac
command -v "${unpack[0]}" >/dev/null || die "$name: please install ${unpack[0]}"

# Passes the file on, and shows on a terminal how much of it has been read.
reading() {
    perl -e '
        my ($file, $shown, $done, $then) = (@ARGV, 0, time);
        open my $in, "<:raw", $file or die "$file: $!\n";
        my $size = -s $in || 1;
        binmode STDOUT;
        while (read $in, my $part, 1 << 18) {
            print $part or exit 1;
            $done += length $part;
            next if time == $then || !-t STDERR;
            $then = time;
            printf STDERR "\r%-64s", sprintf "%s … %d %%", $shown, 100 * $done / $size;
        }' "$file" "$1"
}

# waiting COMMAND…: runs it, and counts seconds on a terminal.
waiting() {
    local ticker status=0 text=$step_text
    if [ -t 2 ]; then
        (while sleep 1; do printf '\r%-64s%5d s' "$text …" $((SECONDS - step_start)) >&2; done) &
        ticker=$!
    fi
    "$@" || status=$?
    if [ -n "${ticker:-}" ]; then
        kill "$ticker" 2>/dev/null || true
        wait "$ticker" 2>/dev/null || true
        printf '\r%-64s' "$text …" >&2
    fi
    return "$status"
}
begin() { step_text=$1; step "$1"; }

# What file_columns.pl says of the file's beginning.
found=$({ "${unpack[@]}" <"$file" 2>/dev/null || true; } | perl "$here/file_columns.pl" "$name" "$header") || exit 1
{ read -r separator; read -r quote; read -r null; read -r has_names; read -r mark; mapfile -t columns; } <<<"$found"

# The names are those of file_columns.pl: identifiers. As a list of SQL, quoted, since some are key words.
declarations=$(printf ', "%s" text' "${columns[@]}")
listed=$(printf ", ('%s')" "${columns[@]}")

start_server "$1" shared_buffers="$(buffers_mb 2048)MB" max_wal_size=8GB checkpoint_timeout=1h autovacuum=off jit=off \
    max_parallel_workers_per_gather=0 max_parallel_maintenance_workers=0 timezone=UTC
# The server must not stay when the terminal is closed.
trap 'exit 129' HUP
sql -c 'CREATE EXTENSION pg_skip' -f "$here/lib.sql" -f "$here/demo_file.sql"
sql -c "CREATE UNLOGGED TABLE staging (${declarations:2})" \
    -c "INSERT INTO demo.col (place, name) SELECT place, name
        FROM unnest(ARRAY(SELECT n FROM (VALUES ${listed:2}) AS v (n))) WITH ORDINALITY AS c (name, place)"

# Says in words of the file what COPY says of it.
explain_copy() {
    local said line
    said=$(sed -n 's/^\(psql: \)\{0,1\}ERROR: *//p' "$1" | head -n 1)
    line=$(sed -n 's/^CONTEXT: .*, line \([0-9]*\).*/\1/p' "$1" | head -n 1)
    local place="$name${line:+, line $line}"
    case $said in
        'extra data after last expected column'*)
            die "$place: has more columns than the first line, which has ${#columns[@]}." \
                "A value with the separator in it must be in quotes." ;;
        'missing data for column'*)
            die "$place: has fewer columns than the first line, which has ${#columns[@]}." ;;
        'unterminated CSV quoted field'*)
            die "$place: a quote does not end. A quote inside of quotes is written twice." ;;
        'invalid byte sequence for encoding'* | 'character with byte sequence'*)
            die "$place: is not in the encoding $encoding ($said). Name the right one, for example ENCODING=latin1." ;;
        'unquoted newline found'* | 'unquoted carriage return found'*)
            die "$place: the lines end in different ways (\\n, \\r\\n or \\r)." ;;
        *) die "$place: ${said:-$(cat "$1")}" ;;
    esac
}

begin "loading $name"
said=$server_dir/copy.err
status=0
{
    reading "loading $name" | "${unpack[@]}" 2>"$server_dir/unpack.err" | tail -c +"$((mark + 1))" |
        sql -c "COPY staging FROM STDIN
                WITH (FORMAT csv, DELIMITER $separator, QUOTE $quote, NULL $null, HEADER $has_names,
                      ENCODING '$encoding')"
} 2>"$said" || status=$?
if grep -q '^ERROR\|^psql' "$said"; then echo >&2; explain_copy "$said"; fi
[ "$status" = 0 ] || { echo >&2; die "$name: ${unpack[0]}: $(cat "$server_dir/unpack.err" "$said")"; }
done_step
[ "$(sql -c 'SELECT EXISTS (SELECT FROM staging)')" = t ] || die "$name: has no rows below the names of its columns"
begin 'guessing types'
waiting sql -c 'CALL demo.make_table()'
done_step
begin 'VACUUM and ANALYZE'
waiting sql -c 'VACUUM (FREEZE, ANALYZE) data'
done_step

case $separator in
    "E'\\t'") separated='tabs' ;;
    "','") separated='commas' ;;
    "';'") separated='semicolons' ;;
    *) separated='"|"' ;;
esac
names='no names (HEADER=yes if there are)'
[ "$has_names" = false ] || names='names in the first line (HEADER=no if not)'
table() { "$bin/psql" -X -q -v ON_ERROR_STOP=1 -P footer=off -P border=2 -P linestyle=unicode -P null='' -c "$1"; }
printf '\n%s: %s columns separated by %s; %s.\n' "$name" "${#columns[@]}" "$separated" "$names"
sql -c "SELECT format('%s rows, %s', to_char((SELECT count(*) FROM data), 'FM999,999,999,999'),
                      pg_size_pretty(pg_table_size('data')))"
if [ "$only" = load ]; then
    table "SELECT name AS \"column\", type FROM demo.col ORDER BY place"
    exit 0
fi

begin 'asking skip_advise'
waiting sql -c "INSERT INTO demo.advice
    SELECT c.place, c.name, a.method, a.index_bytes, a.table_pages, a.reason, a.statement
    FROM demo.col AS c, skip_advise('data', c.name) AS a
    WHERE a.recommended"
done_step
echo
table "SELECT name AS \"column\", type, method AS \"recommended\", pg_size_pretty(index_bytes) AS \"expected size\",
              reason
       FROM demo.advice JOIN demo.col USING (place, name) ORDER BY place"

sql -c "SELECT name, statement FROM demo.advice WHERE method <> 'none' ORDER BY place" -F $'\t' >"$server_dir/indexes"
if [ ! -s "$server_dir/indexes" ]; then
    printf '\nNo column needs an index for lookups of single values.\n'
    exit 0
fi
while IFS=$'\t' read -r column statement <&3; do
    begin "$column: lookups without an index"
    sql -c "CALL demo.choose_queries('$column')"
    waiting sql -c "CALL demo.measure('$column', false)"
    done_step
    begin "$column: index, and lookups with it"
    named="CREATE INDEX data_$column ${statement#CREATE INDEX }"
    seconds=$(waiting sql -c "CALL bench.timed(\$statement\$$named\$statement\$)")
    sql -c "INSERT INTO demo.built VALUES ('$column', pg_relation_size('\"data_$column\"'), $seconds)"
    waiting sql -c "CALL demo.measure('$column', true)"
    done_step
    printf '%s;\n' "$named" >>"$server_dir/statements"
done 3<"$server_dir/indexes"

printf '\nBuilt:\n'
sed 's/^/    /' "$server_dir/statements"
printf '\nLookups of one value: medians of 5 values, for the whole query; pages of 8 kB that it touched.\n'
table "SELECT a.name AS \"column\", a.method AS \"index\", pg_size_pretty(b.bytes) AS \"size\",
              to_char(b.seconds, 'FM9990.00') || ' s' AS \"build\",
              CASE WHEN l.present THEN 'in the table' ELSE 'not in it' END AS \"value\",
              lpad(bench.number(l.ms), 9) || ' ms' AS \"without\", lpad(bench.number(w.ms), 9) || ' ms' AS \"with\",
              lpad(bench.number(l.pages), 9) AS \"pages\", lpad(bench.number(w.pages), 9) AS \"pages with\"
       FROM demo.advice AS a JOIN demo.built AS b USING (name)
       JOIN demo.look_up AS l ON l.name = a.name AND NOT l.indexed
       JOIN demo.look_up AS w ON w.name = a.name AND w.indexed AND w.present = l.present
       ORDER BY a.place, l.present DESC"

column=$(sql -c "SELECT name FROM demo.advice WHERE method = 'skip' ORDER BY place LIMIT 1")
[ -n "$column" ] || exit 0
printf '\nA plan, and where the value lies: . is skipped, o read in vain, # has rows, ? is not summarized\n'
query=$(sql -c "SELECT texts[1] FROM demo.query WHERE name = '$column' AND present")
"$bin/psql" -X -q -v ON_ERROR_STOP=1 -P footer=off -P border=0 -P tuples_only=on \
    -c "EXPLAIN (ANALYZE, BUFFERS) $query" \
    -c "SELECT skip_range_map('\"data_$column\"', '$column', (demo.literals('$column', true, 5))[1], 100)"
