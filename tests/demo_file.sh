#!/usr/bin/env bash
# Tests benches/demo_file.sh, which `make demo DATA=…` runs: types and names of columns, compressed files, messages
# about files that cannot be loaded, and a whole run.
#
#   demo_file.sh PG_CONFIG
#
# Prints a line for each failure, and at its end, like cargo: "test result: … N passed; M failed".
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pg_config=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

demo() { "$here/../benches/demo_file.sh" "$pg_config" "$1" >"$work/out" 2>"$work/err"; }
check() { # check WHAT COMMAND…
    local what=$1; shift
    if "$@"; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        printf 'failed: %s\n' "$what"
        sed 's/^/    /' "$work/out" "$work/err"
    fi
}
# The lines "name type" of the table that ONLY=load prints.
types() { sed -n 's/^│ *\([a-z0-9_]*\) *│ *\([a-z]*\) *│$/\1 \2/p' "$work/out" | sed 1d; }
has_types() { demo "$1" && diff <(types) <(printf '%s\n' "${@:2}"); }
has_rows() { grep -q "^$1 rows, " "$work/out"; }
refuses() { # refuses FILE MESSAGE: the message is the last line, and the status tells of it
    if demo "$1"; then return 1; fi
    tail -n 1 "$work/err" | grep -qF -- "$2"
}

export ONLY=load
mapfile -t orders <"$here/data/orders.types"
cp "$here/data/orders.csv" "$work/orders.csv"
check 'types' has_types "$work/orders.csv" "${orders[@]}"
check 'rows, one of two lines' has_rows 3
for packer in xz gzip; do
    "$packer" -c "$work/orders.csv" >"$work/orders.$packer"
    check "$packer" has_types "$work/orders.$packer" "${orders[@]}"
done
{ printf '\357\273\277'; sed 's/$/\r/' "$here/data/orders.csv"; } >"$work/windows.csv"
check 'a mark of UTF-8, and \r\n' has_types "$work/windows.csv" "${orders[@]}"

printf '1\tab "c\t2026-01-01\t7\n2\t\\N\t2026-01-02\t\\N\n' >"$work/plain.tsv"
check 'tabs, no names, quotes that are none, NULL as PostgreSQL writes it' \
    has_types "$work/plain.tsv" 'column_1 integer' 'column_2 text' 'column_3 timestamptz' 'column_4 integer'
check 'two rows' has_rows 2
printf 'a;b\n1,5;x\n2,5;y\n' >"$work/semicolons.csv"
check 'semicolons' has_types "$work/semicolons.csv" 'a text' 'b text'
printf 'ann,berlin\nbob,paris\n' >"$work/texts.csv"
HEADER=no check 'HEADER=no' has_types "$work/texts.csv" 'column_1 text' 'column_2 text'
printf 'id,id,select,ctid,1st,,x y\n1,2,3,4,5,6,7\n' >"$work/names.csv"
HEADER=yes check 'names' has_types "$work/names.csv" 'id integer' 'id_2 integer' 'select integer' 'ctid_2 integer' \
    'c_1st integer' 'column_6 integer' 'x_y integer'
{ printf 'n,b\n'; seq -f '%g,t' 1 3000; printf '99999999999,maybe\n'; } >"$work/late.csv"
check 'a type that only a late row shows' has_types "$work/late.csv" 'n bigint' 'b text'
printf 'word\nGr\374\337e\n' >"$work/latin1.csv"
ENCODING=latin1 check 'ENCODING=latin1' has_types "$work/latin1.csv" 'word text'
check 'not UTF-8' refuses "$work/latin1.csv" 'latin1.csv, line 2: is not in the encoding UTF8'

: >"$work/empty.csv"
check 'an empty file' refuses "$work/empty.csv" 'empty.csv: is empty'
: | gzip -c >"$work/empty.gz"
check 'an empty file, compressed' refuses "$work/empty.gz" 'empty.gz: is empty'
printf 'a,b\n' >"$work/names_only.csv"
HEADER=yes check 'names only' refuses "$work/names_only.csv" 'names_only.csv: has no rows below the names'
printf 'a,b,c\n1,2,3\n4,5\n' >"$work/short.csv"
check 'a short row' refuses "$work/short.csv" 'short.csv, line 3: has fewer columns than the first line, which has 3.'
printf 'a,b,c\n1,2,3\n4,5,6,7\n' >"$work/long.csv"
check 'a long row' refuses "$work/long.csv" 'long.csv, line 3: has more columns than the first line, which has 3.'
printf 'a,b\n1,2\n"3,4\n5,6\n' >"$work/quote.csv"
check 'a quote without end' refuses "$work/quote.csv" 'a quote does not end'
printf 'a,b\n1,2\n' | iconv -f UTF-8 -t UTF-16 >"$work/utf16.csv"
check 'UTF-16' refuses "$work/utf16.csv" 'utf16.csv: is UTF-16'
printf 'a,b\n1,2\n\0,3\n' >"$work/zero.csv"
check 'a byte of zero' refuses "$work/zero.csv" 'zero.csv: is no text'
head -c 40 "$work/orders.gzip" >"$work/cut.gz"
check 'a damaged archive' refuses "$work/cut.gz" 'cut.gz: '
check 'no such file' refuses "$work/none.csv" 'none.csv: there is no such file'

# A whole run: a unique column gets a skip index, one in order BRIN, and one with two values nothing.
unset ONLY
awk 'BEGIN {
    srand(1)
    for (i = 1; i <= 200000; i++)
        printf "%d,%08x-0000-4000-8000-%012x,%s\n", i, rand() * 2 ^ 31, rand() * 2 ^ 31, i % 2 ? "t" : "f"
}' >"$work/run.csv"
whole_run() {
    demo "$work/run.csv" && grep -q 'CREATE INDEX data_column_2 ON .*data USING skip (column_2)' "$work/out" &&
        grep -q 'CREATE INDEX data_column_1 ON .*data USING brin (column_1)' "$work/out" &&
        ! grep -q 'CREATE INDEX data_column_3' "$work/out" &&
        grep -q 'Custom Scan (Skip Index Scan) on data' "$work/out" &&
        grep -q '^ *[.o]*#[.o#?]*$' "$work/out"
}
check 'a whole run' whole_run

[ "$failed" = 0 ] && result=ok || result=FAILED
printf 'test result: %s. %d passed; %d failed\n' "$result" "$passed" "$failed"
[ "$failed" = 0 ]
