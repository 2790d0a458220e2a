//! The policies there are, by name.

use super::clickhouse::ClickHouse;
use super::filter_policy::FilterPolicy;
use super::leveldb::LevelDb;
use super::rocksdb::RocksDb;
use super::skip::Skip;

/// Every policy, the default first. A new one is a line here.
pub static POLICIES: &[&dyn FilterPolicy] = &[&Skip, &LevelDb, &ClickHouse, &RocksDb];

/// The policy of a code, by which stored values name it.
pub fn by_code(code: u8) -> Option<&'static dyn FilterPolicy> {
    POLICIES.iter().copied().find(|policy| policy.code() == code)
}

/// The policy of a name: its own, or the one it has in the files of the system it comes from. None means that nothing
/// is known of its filters, so that they may hold any key: see `key_may_match`.
pub fn by_name(name: &str) -> Option<&'static dyn FilterPolicy> {
    POLICIES.iter().copied().find(|policy| [policy.name(), policy.stored_name()].contains(&name))
}
