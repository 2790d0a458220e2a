# Queries with nothing in memory, for bench.sh: the server restarted and the machine's page cache dropped. Sourced, not
# run. It needs root; without it the report says that nothing was measured.

drop_caches() { sync && { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null; }

# cold_ms VARIANT KIND NUMBER [KEYS]: milliseconds of a query for a key, or for a list of KEYS keys, after a restart.
# What every first query of a server reads of the catalogs is read before.
cold_ms() {
    local query
    query=$(sql -c "SELECT (bench.queries('$subject', '$2', ${4:-1}))[$3]")
    restart_server
    drop_caches
    PGOPTIONS="$(only_index "$1") -c enable_seqscan=off" sql \
        -c 'EXPLAIN SELECT * FROM pg_class WHERE oid = 1' -c '\timing on' -c "$query" |
        sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -1
}

measure_cold() {
    local run variant kind
    drop_caches || return 0
    for run in $(seq "$rounds"); do
        step "nothing in memory: round $run of $rounds"
        for variant in btree skip filters; do
            for kind in absent present; do
                keep "$variant" "cold_${kind}_ms" "$(cold_ms "$variant" "$kind" "$run")"
            done
            # choose_keys has chosen five lists of keys that are there.
            keep "$variant" cold_present_list_ms "$(cold_ms "$variant" present "$(((run - 1) % 5 + 1))" 1000)"
        done
        done_step
    done
    sql -c "SELECT pg_prewarm('events')" >/dev/null
}
