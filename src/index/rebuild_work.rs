//! How the table is read again to rebuild segments of any kind: options, memory, and folds in between.

use super::collect::{self, Failure, RangeCollectorOptions, Versions};
use crate::pages::directory::Directory;
use crate::pages::entry::Rescan;
use crate::pages::meta::Meta;
use crate::pages::upkeep;
use crate::pg::{Rel, error::IndexResult};

/// What rebuilding filters, maps and bounds has in common.
pub struct RebuildWork<'a, 'm> {
    pub heap: Rel<'a>,
    pub meta: &'m Meta,
    in_vacuum: bool,
    /// The first failure of users' code.
    pub failure: Option<Failure>,
}

impl<'a, 'm> RebuildWork<'a, 'm> {
    /// Work on an index whose meta page is `meta`. In VACUUM its cost limits apply to reading the table.
    pub fn new(heap: Rel<'a>, meta: &'m Meta, in_vacuum: bool) -> Self {
        Self { heap, meta, in_vacuum, failure: None }
    }

    /// Options for reading the table.
    pub fn options(&self) -> RangeCollectorOptions {
        RangeCollectorOptions {
            bulk: true,
            in_vacuum: self.in_vacuum,
            memory: self.memory(),
            versions: Versions::All,
            may_fail: true,
        }
    }

    /// Bytes of memory for each column.
    pub fn memory(&self) -> usize {
        collect::memory_of_column(self.meta)
    }

    /// Folds the delta during a rescan of maps if it has grown to more pages than a lookup should read.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn fold_during(&self, directory: &mut Directory<'_>, rescan: &Rescan) -> IndexResult<()> {
        /// As many as are folded at once: so the addition is worth a map of its own.
        const MOST_PAGES: u64 = 64;
        if Meta::read(directory.index())?.delta_pages() > MOST_PAGES {
            upkeep::fold_and_merge(directory, self.meta.columns.len(), Some(rescan))?;
        }
        Ok(())
    }

    /// Folds the delta between two rescans if it has grown: during a rescan every insert into its ranges adds entries.
    ///
    /// # Errors
    /// Damage to the index.
    pub fn fold(&self, directory: &mut Directory<'_>) -> IndexResult<()> {
        if Meta::read(directory.index())?.delta_pages() > 1 {
            upkeep::fold_and_merge(directory, self.meta.columns.len(), None)?;
        }
        Ok(())
    }
}
