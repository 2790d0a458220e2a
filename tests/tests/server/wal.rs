//! What WAL says: records as `pg_waldump` describes them, and positions as numbers.
use pg_skip_tests::server::{Server, install};
use std::process::Command;

/// The size of a segment that `initdb` sets, and how many of them share the middle part of a file's name
/// (`XLogFileName`).
const WAL_SEGMENT_BYTES: u64 = 16 << 20;
const WAL_SEGMENTS_OF_ID: u64 = (1 << 32) / WAL_SEGMENT_BYTES;

/// What pg_waldump says of some records between two places.
pub fn dumped(server: &Server, start: &str, end: &str, only: [&str; 2]) -> Vec<String> {
    let mut command = waldump(server, start, end);
    let output = command.args(only).output().expect("pg_waldump");
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {problem}");
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// pg_waldump of the records between two places, of a server that was never promoted: on timeline 1. Without the names
/// of the segments it takes their size from the first file that the folder lists, which on some file systems is one
/// that the server keeps ready and that is still empty.
pub fn waldump(server: &Server, start: &str, end: &str) -> Command {
    let segment = |position: u64| {
        let number = position / WAL_SEGMENT_BYTES;
        format!("{:08X}{:08X}{:08X}", 1, number / WAL_SEGMENTS_OF_ID, number % WAL_SEGMENTS_OF_ID)
    };
    let mut command = install().command("pg_waldump");
    command.arg("-p").arg(server.data().join("pg_wal")).args(["-s", start, "-e", end]);
    command.args([segment(position(start)), segment(position(end) - 1)]);
    command
}

/// What follows a word in a record's description, up to the next space or comma.
pub fn field<'a>(record: &'a str, word: &str) -> &'a str {
    let after = record.split_once(word).map(|(_, rest)| rest.trim_start());
    let after = after.unwrap_or_else(|| panic!("no {word:?} in {record:?}"));
    after.split([' ', ',']).next().unwrap_or(after)
}

/// Where a record is in WAL.
pub fn lsn(record: &str) -> &str {
    field(record, "lsn:")
}

/// A position in WAL as a number.
pub fn position(lsn: &str) -> u64 {
    let (high, low) = lsn.split_once('/').expect("a position in WAL");
    let part = |hex| u64::from_str_radix(hex, 16).expect("a hexadecimal number");
    part(high) << 32 | part(low)
}
