//! The server tests: one process that starts servers of the installation under test, asks them, and stops them.
//!
//! Most tests share one server, each in a database of its own; those that crash, damage or replicate start theirs.
//! A test fails if the shared server's log tells of a crash while it ran, and a watchdog ends a run that hangs.
#![deny(dead_code)] // a test that is not registered
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod advise;
mod at_commit;
mod background;
mod bloom;
mod build;
mod build_wal;
mod c_library;
mod column_types;
mod compact;
mod concurrency;
mod crash;
mod damage;
mod ddl;
mod declarations;
mod delta;
mod distinct;
mod distributed;
mod docs;
mod early_pruning;
mod encodings;
mod errors;
mod errors_of_others;
mod failing_expressions;
mod format;
mod functions;
mod growth;
mod guesses;
mod history;
mod hooks_of_others;
mod hostile_schemas;
mod insert;
mod inside;
mod key_part_races;
mod key_parts;
mod lost_blocks;
mod maps;
mod merge;
mod meta_pins;
mod old_snapshots;
mod operator_families;
mod oracle;
mod ordered;
mod out_of_memory;
mod packaging;
mod page_rot;
mod parallel_build;
mod parallel_failures;
mod parallel_maps;
mod plans;
mod privileges;
mod publication;
mod queries;
mod range_map;
mod real_data;
mod rebuild;
mod refine;
mod registry;
mod replay;
mod rescan;
mod rescan_folds;
mod results;
mod shared;
mod skip_index_scan;
mod standby;
mod statistics;
mod summarize;
mod types;
mod vacuum;
mod verify;
mod wal;

use libtest_mimic::Arguments;
use pg_skip_tests::server;
use std::num::NonZero;
use std::process::ExitCode;

/// One test more than there are processors. Tests often wait, for sleeps and locks and other servers: two at a time
/// left two processors idle for 40 % of the time, and took 426 s where three took 349.
fn tests_at_once() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get) + 1
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert_with(tests_at_once);
    if !arguments.list {
        server::install();
        let stop = || {
            server::stop_all();
            std::process::exit(130)
        };
        ctrlc::set_handler(stop).expect("a handler of signals");
        shared::quiet_panics();
        shared::watch();
    }
    let conclusion = libtest_mimic::run(&arguments, registry::trials());
    shared::tell_slowest();
    shared::stop();
    server::stop_all();
    conclusion.exit_code()
}
