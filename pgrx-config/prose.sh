#!/usr/bin/env bash
# Checks what is written for people:
#
# - a line of prose in *.md has at most 120 columns; code blocks, tables and what a make target writes are left out;
# - a comment line in *.rs has at most 120 columns; tables are left out;
# - a line of a script, of the Makefile, of SQL and of the tests has at most 120 columns; the head of a table that a
#   report writes is left out;
# - a relative link in *.md leads to a file or directory, and its anchor to a heading.
set -euo pipefail
export LC_ALL=C # every awk then takes a byte for a character
cd "$(dirname "$0")/.."
files() { find . \( -name target -o -name .git \) -prune -o \( "$@" \) -type f -print | sed 's,^\./,,' | sort; }
files=$(files -name '*.md')

long=$(
    # Columns are the bytes that do not continue a character of UTF-8.
    columns='function columns(text) { gsub(/[\200-\277]/, "", text); return length(text) }'
    # shellcheck disable=SC2086
    awk "$columns"'
        FNR == 1                                   { code = made = 0 }
        /^ *```/                                   { code = !code; next }
        /^<!-- ([Mm]ade|[Ww]ritten) by `?make /    { made = 1 }
        /^<!-- [Ee]nd of /                         { made = 0 }
        code || made || /^ *\|/                    { next }
        columns($0) > 120 { print FILENAME ":" FNR ": a line of " columns($0) " columns" }' $files
    # shellcheck disable=SC2046
    awk "$columns"'
        /^ *\/\/[\/!]? *\|/               { next }
        /^ *\/\// && columns($0) > 120    { print FILENAME ":" FNR ": a comment of " columns($0) " columns" }
        ' $(files -name '*.rs')
    # shellcheck disable=SC2046
    awk "$columns"'
        /^\\qecho .\|/ { next }
        columns($0) > 120 { print FILENAME ":" FNR ": a line of " columns($0) " columns" }
        ' Makefile $(files \( -name '*.sh' -o -name '*.p[ly]' -o -name '*.sql' -o -path './tests/*' -name '*.rs' \))
)

# shellcheck disable=SC2086
anchors=$(awk '
    FNR == 1        { code = 0; split("", seen) }
    /^ *```/        { code = !code }
    !code && /^#+ / { text = tolower($0); sub(/^#+ +/, "", text); sub(/ +$/, "", text)
                      gsub(/[^a-z0-9 _-]/, "", text); gsub(/ /, "-", text)
                      print FILENAME "#" text (seen[text]++ ? "-" seen[text] - 1 : "") }' $files)

# shellcheck disable=SC2086
dead=$(awk '
    FNR == 1        { code = 0 }
    /^ *```/        { code = !code }
    !code           { while (match($0, /\]\([^) ]+\)/)) {
                          print FILENAME, FNR, substr($0, RSTART + 2, RLENGTH - 3)
                          $0 = substr($0, RSTART + RLENGTH) } }' $files |
    while read -r file line link; do
        case "$link" in *://* | mailto:*) continue ;; esac
        path=${link%%#*}
        if [ -z "$path" ]; then path=$file; else path=$(realpath -m --relative-to=. "$(dirname "$file")/$path"); fi
        [ -e "$path" ] || { echo "$file:$line: no file for the link $link"; continue; }
        case "$link" in *#*) ;; *) continue ;; esac
        grep -qxF -- "$path#${link#*#}" <<<"$anchors" || echo "$file:$line: no heading for the link $link"
    done)

wrong=$long${long:+${dead:+$'\n'}}$dead
[ -z "$wrong" ] || { printf '%s\n' "$wrong" >&2; exit 1; }
