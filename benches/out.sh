# Where a benchmark's results go: JSON, plots, and pages with both. Sourced, not run.
#
#   out=DIRECTORY               docs for a run at full size; else target/bench, unless OUT names another
#   write_results NAME [SQL]    $out/results/NAME.json: what the expression gives, by default all of bench.result
#   draw_plots NAME…            $out/images/NAME.svg, from that; removes them where they cannot be drawn
#   image NAME TEXT             a line of Markdown that shows the plot, if it is there
#
# Python has what the plots and ClickHouse need in a virtual environment of its own: nothing is installed beside it.

bench_venv=$here/../target/bench/venv

# choose_out FULL ROWS: out is docs if as many rows are measured as the pages show.
choose_out() {
    out=${OUT:-}
    if [ -z "$out" ]; then
        if [ "$1" = "$2" ]; then out=$here/../docs; else out=$here/../target/bench; fi
    fi
    mkdir -p "$out/results" "$out/images"
    out=$(cd "$out" && pwd)
}

# python_with PACKAGE…: whether there is a Python that has them; pip gets what is missing.
python_with() {
    [ -x "$bench_venv/bin/python" ] || python3 -m venv "$bench_venv" >&2 || return 1
    "$bench_venv/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2
}

write_results() {
    sql -c "SELECT ${2:-bench.as_json()}" >"$out/results/$1.json.new"
    mv "$out/results/$1.json.new" "$out/results/$1.json"
    echo "$out/results/$1.json is written" >&2
}

# matplotlib has logarithmic axes, text with outlines, and SVG: no crate of the workspace needs to know of it.
draw_plots() {
    local name
    if [ "${PLOTS:-yes}" = yes ] && python_with matplotlib==3.10.8 &&
        "$bench_venv/bin/python" "$here/plots.py" "$out/results" "$out/images" "$@" >&2; then return; fi
    echo "no plots of $*: matplotlib cannot be installed here, or PLOTS=no" >&2
    for name in "$@"; do rm -f "$out/images/$name.svg"; done
}

image() { [ ! -e "$out/images/$1.svg" ] || printf '![%s](images/%s.svg)\n' "$2" "$1"; }

# between FILE NAME TEXT: replaces what FILE has between the line "<!-- made by NAME …" and the next "<!-- end of …" by
# the contents of the file TEXT.
between() {
    awk -v name="$2" -v text="$3" '
        /^<!-- [Ee]nd of /      { if (inside) while ((getline line < text) > 0) print line; inside = 0 }
        !inside                 { print }
        /^<!-- ([Mm]ade|[Ww]ritten) by / && index($0, name) { inside = 1 }' "$1" >"$1.new"
    mv "$1.new" "$1"
}
