//! Pages whose checksum was verified a moment ago.
//!
//! A query reads the same slices twice, in planning and in executing, and to verify their checksums was a quarter of a
//! short query's time. So what the first reading verified the second takes on trust, if it is the same page, in the same
//! buffer, with the same checksum on it, within the same transaction. Whoever changes a page changes its checksum; a page
//! that was evicted and read again comes into another buffer, or had better not rot within one transaction. Each entry
//! serves once: the third reading verifies again.

use std::cell::Cell;

/// One reading of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The index's salt: differs between indexes.
    pub salt: u64,
    /// What the page says that its checksum is.
    pub checksum: u64,
    /// The transaction that reads.
    pub transaction: i64,
    /// The page's block.
    pub block: u32,
    /// Where it lies.
    pub buffer: i32,
}

/// Entries, by block number. A look-up of one key reads some thirty slices, most of them in neighbouring pages.
const PLACES: usize = 256;

/// Readings that found the checksum right.
#[derive(Debug)]
pub struct Verified([Cell<Option<Reading>>; PLACES]);

impl Verified {
    /// None yet.
    pub const fn new() -> Self {
        Self([const { Cell::new(None) }; PLACES])
    }

    fn place(&self, page: &Reading) -> &Cell<Option<Reading>> {
        &self.0[page.block as usize % PLACES]
    }

    /// Notes that a page's checksum was found to be right.
    pub fn remember(&self, page: Reading) {
        self.place(&page).set(Some(page));
    }

    /// Whether a page was verified just now; forgets that it was.
    pub fn recall(&self, page: &Reading) -> bool {
        let found = self.place(page).get().as_ref() == Some(page);
        if found {
            self.place(page).set(None);
        }
        found
    }
}

impl Default for Verified {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Reading = Reading { salt: 1, checksum: 2, transaction: 3, block: 4, buffer: 5 };

    #[test]
    fn the_second_reading_trusts_and_the_third_verifies() {
        let verified = Verified::new();
        assert!(!verified.recall(&PAGE), "nobody verified it");
        verified.remember(PAGE);
        assert!(verified.recall(&PAGE));
        assert!(!verified.recall(&PAGE), "trusted twice");
    }

    #[test]
    fn nothing_else_is_trusted() {
        for other in [
            Reading { salt: 9, ..PAGE },
            Reading { checksum: 9, ..PAGE },
            Reading { transaction: 9, ..PAGE },
            Reading { block: 9, ..PAGE },
            Reading { block: PAGE.block + PLACES as u32, ..PAGE },
            Reading { buffer: -PAGE.buffer, ..PAGE },
        ] {
            let verified = Verified::new();
            verified.remember(PAGE);
            assert!(!verified.recall(&other), "{other:?}");
            assert!(verified.recall(&PAGE), "and it costs the first nothing");
        }
    }

    #[test]
    fn a_later_page_takes_the_place() {
        let verified = Verified::new();
        verified.remember(PAGE);
        let later = Reading { block: PAGE.block + PLACES as u32, ..PAGE };
        verified.remember(later);
        assert!(!verified.recall(&PAGE) && verified.recall(&later));
    }
}
