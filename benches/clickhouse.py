"""Measures ClickHouse's data-skipping index of Bloom filters on the rows of twenty_million.sql.

clickhouse.py DIRECTORY ROWS RUNS ROUNDS < rows.csv

DIRECTORY has the file keys, of lines "kind<TAB>key"; the table is made in it. Prints lines
"variant<TAB>metric<TAB>value", and one "version<TAB>…". Fails if a key is not found, or if there are not as many rows
as there should be.
"""

import itertools
import os
import statistics
import sys
import time

from chdb.session import Session

RATE = 0.0001  # that of skip's filters in tables of up to 625 MB
ROWS_OF_PART = 1_000_000
SECONDS = 2.0  # of lookups of one kind, in each round

SETTINGS = {
    "max_threads": 1,
    "use_query_condition_cache": 0,  # it would answer the second question for the same key
}


def main():
    directory, rows, runs, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    keys = {"absent": [], "present": []}
    with open(os.path.join(directory, "keys"), encoding="ascii") as lines:
        for line in lines:
            kind, key = line.rstrip("\n").split("\t")
            keys[kind].append(key)
    session = Session(os.path.join(directory, "data"))
    for name, value in SETTINGS.items():
        if is_setting(session, name):
            session.query(f"SET {name} = {value}")
    load(session, directory)
    count = number(session, "SELECT count() FROM bench.events")
    if count != rows:
        sys.exit(f"{count} rows instead of {rows}")
    report("version", str(session.query("SELECT version()")).strip().strip('"'))
    for _ in range(rounds):
        look_up(session, "clickhouse_none", keys)
    for _ in range(runs):
        session.query("ALTER TABLE bench.events DROP INDEX IF EXISTS skip_trace SETTINGS mutations_sync = 2")
        session.query(
            "ALTER TABLE bench.events ADD INDEX skip_trace trace_id"
            f" TYPE bloom_filter({RATE}) GRANULARITY 1 SETTINGS alter_sync = 2"
        )
        began = time.perf_counter()
        session.query("ALTER TABLE bench.events MATERIALIZE INDEX skip_trace SETTINGS mutations_sync = 2")
        report("clickhouse", "build_s", time.perf_counter() - began)
    report(
        "clickhouse",
        "bytes",
        number(
            session,
            "SELECT sum(data_compressed_bytes) FROM system.data_skipping_indices WHERE database = 'bench'",
        ),
    )
    plan = str(session.query(f"EXPLAIN indexes = 1 {query(keys['absent'][:1])}"))
    if "skip_trace" not in plan:
        sys.exit(f"the index is not used:\n{plan}")
    for _ in range(rounds):
        look_up(session, "clickhouse", keys, lists=True)


def is_setting(session, name):
    return number(session, f"SELECT count() FROM system.settings WHERE name = '{name}'") == 1


def load(session, directory):
    """The rows from the standard input, in the order in which they come, then in one part."""
    session.query("CREATE DATABASE bench")
    session.query(
        "CREATE TABLE bench.events (id Int64, trace_id UUID, device_id Int32, ts DateTime64(6, 'UTC'), payload String)"
        " ENGINE = MergeTree ORDER BY id"
    )
    file = os.path.join(directory, "part.csv")
    while lines := list(itertools.islice(sys.stdin.buffer, ROWS_OF_PART)):
        with open(file, "wb") as part:
            part.writelines(lines)
        session.query(
            f"INSERT INTO bench.events SELECT * FROM file('{file}', 'CSV')"
            " SETTINGS date_time_input_format = 'best_effort'"
        )
        os.remove(file)
    session.query("OPTIMIZE TABLE bench.events FINAL")


def query(keys):
    if len(keys) == 1:
        return f"SELECT * FROM bench.events WHERE trace_id = '{keys[0]}'"
    return f"SELECT * FROM bench.events WHERE trace_id IN ({', '.join(map(repr, keys))})"


def look_up(session, variant, keys, lists=False):
    measure(session, variant, "absent_ms", [[key] for key in keys["absent"]], 0)
    measure(session, variant, "present_ms", [[key] for key in keys["present"][:200]], 1)
    if lists:
        absent, present = keys["absent"], keys["present"]
        measure(session, variant, "list_ms", [absent[i : i + 100] for i in range(0, len(absent) - 99, 100)], 0)
        in_lists = [present[i : i + 1000] for i in range(0, len(present) - 999, 1000)]
        if in_lists:
            measure(session, variant, "present_list_ms", in_lists, 1)


def measure(session, variant, metric, lists, found):
    """The median over the lists, each asked once, until SECONDS have passed; the first is asked once more before."""
    ms = []
    session.query(query(lists[0]), "CSV")
    started = time.perf_counter()
    for keys in lists:
        began = time.perf_counter()
        answer = session.query(query(keys), "CSV")
        ms.append(1000 * (time.perf_counter() - began))
        rows = str(answer).count("\n")
        if rows != found * len(set(keys)):
            sys.exit(f"{rows} rows for {len(keys)} keys: {metric}")
        if len(ms) >= 3 and time.perf_counter() > started + SECONDS:
            break
    report(variant, metric, statistics.median(ms))


def number(session, question):
    return int(str(session.query(question, "TabSeparated")).strip())


def report(*words):
    print(*words, sep="\t", flush=True)


main()
