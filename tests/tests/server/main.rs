//! The server tests: one process that starts servers of the installation under test, asks them, and stops them.
//!
//! Most tests share one server, each in a database of its own; those that crash, damage or replicate start theirs.
//! A test fails if the shared server's log tells of a crash while it ran, and a watchdog ends a run that hangs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bloom;
mod column_types;
mod concurrency;
mod core_bugs;
mod crash;
mod damage;
mod ddl;
mod docs;
mod encodings;
mod errors;
mod errors_of_others;
mod format;
mod functions;
mod history;
mod oracle;
mod page_rot;
mod plans;
mod privileges;
mod range_map;
mod real_data;
mod regressions;
mod shared;
mod skip_scan;
mod standby;
mod statistics;
mod types;
mod upkeep;

use libtest_mimic::{Arguments, Trial};
use pg_skip_tests::server;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = Vec::new();
    // The slow ones with servers of their own first: what is left then fills the second core.
    for topic in [
        crash::trials,
        standby::trials,
        upkeep::trials,
        statistics::trials,
        damage::trials,
        page_rot::trials,
        errors::trials,
        errors_of_others::trials,
        encodings::trials,
        format::trials,
        core_bugs::trials,
        concurrency::trials,
        oracle::trials,
        skip_scan::trials,
        bloom::trials,
        types::trials,
        column_types::trials,
        plans::trials,
        privileges::trials,
        range_map::trials,
        real_data::trials,
        regressions::trials,
        ddl::trials,
        functions::trials,
        docs::trials,
    ] {
        trials.extend(topic());
    }
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
    let conclusion = libtest_mimic::run(&arguments, trials);
    shared::stop();
    server::stop_all();
    conclusion.exit_code()
}
