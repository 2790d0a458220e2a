# ClickHouse in the run of bench.sh, through the Python package chdb: the same rows, the same keys, a skip index of
# Bloom filters at a rate of 0.01 %. Sourced, not run: it uses bench.sh's variables and functions. It needs
# pip and a network, or chdb in pip's cache; otherwise the page says that it is left out.

chdb_version=4.4.0

measure_clickhouse() {
    local directory=$server_dir/clickhouse
    step "ClickHouse: pip install chdb==$chdb_version"
    if ! python_with "chdb==$chdb_version"; then
        done_step
        left_out+=("ClickHouse: the Python package chdb cannot be installed here")
        return 0
    fi
    done_step
    step 'ClickHouse: rows, index, lookups'
    mkdir -p "$directory"
    sql -c "COPY (SELECT kind, literal FROM bench.key WHERE subject = '$subject' ORDER BY kind, number) TO STDOUT" \
        >"$directory/keys"
    if sql -c "COPY events TO STDOUT (FORMAT csv)" |
        "$bench_venv/bin/python" "$here/clickhouse.py" "$directory" "$rows" "$runs" "$rounds" \
            >"$directory/results"; then
        sed -n "s/^clickhouse/$subject\tclickhouse/p" "$directory/results" | sql -c 'COPY bench.result FROM STDIN'
        context clickhouse "$(sed -n 's/^version\t//p' "$directory/results")"
    else
        left_out+=("ClickHouse: benches/clickhouse.py failed")
    fi
    rm -rf "$directory"
    done_step
}
