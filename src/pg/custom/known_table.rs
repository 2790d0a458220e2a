//! What a session knows of a table's pages: on which of them a lookup need not look at the rows.
//!
//! [`skip_scan::known_pages`] says what is remembered, and why. Here are the conditions under which it is right:
//!
//! - Every change of a row moves the page's position in WAL (`pd_lsn`) forward, under the page's exclusive lock, and a
//!   page is looked at under its share lock. This holds for tables whose changes are logged: not for temporary and
//!   unlogged ones, nor for a file that was created in the same transaction, whose changes `wal_level = minimal` does
//!   not log. Nothing is remembered of these. Hint bits change without a record, but no value does.
//! - The file tells tables apart, and what a transaction leaves unlogged is in a file that it has created, which has a
//!   number of its own. (`ALTER TABLE … SET TABLESPACE` copies pages with their positions into such a file.) When a
//!   file number comes back, after 2^32 others, the pages have later positions.
//! - On a standby, replay changes pages and positions in the same way.
//!
//! What is to be remembered is collected under the page's lock, and remembered after it was released.

use super::raw::RawTest;
use crate::pg::Rel;
use crate::pg::compat;
use crate::pg::heap::HeapPage;
use skip_scan::known_pages::{Knowledge, KnownPages, KnownRows, MOST_PAGES, PageColumn};
use std::cell::RefCell;

/// The most rows of a page: MaxHeapTuplesPerPage of htup_details.h.
const MOST_ROWS: usize = 291;

thread_local! {
    static KNOWN: RefCell<KnownPages> = const { RefCell::new(KnownPages::new()) };
    /// The short hashes of the last page's rows. Room for them is allocated before a page is locked.
    static HASHES: RefCell<Vec<u16>> = const { RefCell::new(Vec::new()) };
}

/// A table while it is scanned.
pub struct KnownTable {
    /// The identifier of its file; None if nothing may be remembered of it.
    file: Option<[u32; 3]>,
    /// What is to be remembered of the last page.
    news: PageNews,
}

/// What is to be remembered of a page.
#[derive(Clone, Copy)]
enum PageNews {
    Nothing,
    /// It was looked at when its last change was at this position in WAL.
    Page(PageColumn, u64),
    /// The same, and [`HASHES`] has the hashes of its rows; so many look live.
    Rows(PageColumn, u64, u64),
}

impl KnownTable {
    /// For a scan of so many blocks. If they are more than a session remembers, pages take each other's places; from
    /// twice as many consecutive blocks on, nothing is ever known.
    pub fn of(table: Rel, blocks: u64) -> Self {
        HASHES.with_borrow_mut(|hashes| {
            hashes.clear();
            hashes.reserve(MOST_ROWS);
        });
        let file = (table.needs_wal() && blocks <= MOST_PAGES as u64).then(|| {
            // SAFETY: the table is open.
            compat::numbers_of(&unsafe { compat::locator(table.raw()) })
        });
        Self { file, news: PageNews::Nothing }
    }

    /// As [`RawTest::rules_out`]; the number of tuples may be that of an earlier time.
    ///
    /// # Safety
    /// A page of the table, under a share lock at least.
    pub unsafe fn rules_out(&mut self, test: &RawTest, page: HeapPage) -> Result<u64, u16> {
        // An error may have come before the last page was remembered.
        self.news = PageNews::Nothing;
        // SAFETY: as the caller promises.
        let rules_out = || unsafe { test.rules_out(page) };
        let (Some(file), Some(wanted)) = (self.file, test.short_hash()) else { return rules_out() };
        let position = page.wal_position();
        if position == 0 {
            return rules_out(); // no change of the page has ever been logged
        }
        let column = PageColumn { file, block: page.block(), column: test.column_code() };
        match KNOWN.with_borrow(|known| known.look_up(&column, position, wanted)) {
            Knowledge::RuledOut(live) => Ok(live),
            Knowledge::MayHold => rules_out(),
            Knowledge::Nothing => {
                self.news = PageNews::Page(column, position);
                rules_out()
            }
            Knowledge::ReadOnce => {
                let live = rules_out()?;
                // SAFETY: as the caller promises.
                if unsafe { collect(test, page) } {
                    self.news = PageNews::Rows(column, position, live);
                }
                Ok(live)
            }
        }
    }

    /// Remembers the last page, which is not locked any more.
    pub fn remember(&mut self) {
        let (column, position, rows) = match std::mem::replace(&mut self.news, PageNews::Nothing) {
            PageNews::Nothing => return,
            PageNews::Page(column, position) => (column, position, None),
            PageNews::Rows(column, position, live) => {
                (column, position, Some(HASHES.with_borrow(|hashes| KnownRows::new(hashes, live))))
            }
        };
        KNOWN.with_borrow_mut(|known| known.remember(column, position, rows));
    }
}

/// Collects the short hashes of a page's rows; false if there is no room, or a row's value is not found.
///
/// # Safety
/// As [`KnownTable::rules_out`].
unsafe fn collect(test: &RawTest, page: HeapPage) -> bool {
    HASHES.with_borrow_mut(|hashes| {
        hashes.clear();
        for (row, len, _) in page.items() {
            // SAFETY: an item of the page.
            match unsafe { test.short_hash_of(row, len) } {
                Some(None) => {} // NULL is no lookup's value
                Some(Some(hash)) if hashes.len() < hashes.capacity() => hashes.push(hash),
                _ => return false,
            }
        }
        true
    })
}
