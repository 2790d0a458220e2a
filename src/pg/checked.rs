//! Pages whose checksum this process has just verified.
//!
//! A query reads the same slices twice, in planning and in executing, and to verify their checksums was a quarter of a
//! short query's time. So what the first reading verified the second takes on trust, if the page is still in the same
//! buffer with the same checksum on it. Whoever changes a page changes its checksum, and a page that was evicted and
//! read again will hardly get its old buffer. Each entry serves once: the third reading verifies again.

use std::cell::Cell;

/// What was verified.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Checked {
    /// The index's salt: differs between indexes.
    pub salt: u64,
    /// What the page says that its checksum is.
    pub checksum: u64,
    pub block: u32,
    /// The shared buffer's number (from 1), or minus a local one's.
    pub buffer: i32,
}

/// Entries, by block number. A look-up of one key reads some thirty slices, most of them in neighbouring pages.
const PLACES: usize = 256;

thread_local! {
    static RECENT: [Cell<Checked>; PLACES] = const { [const { Cell::new(NOTHING) }; PLACES] };
}

/// No buffer has number 0.
const NOTHING: Checked = Checked { salt: 0, checksum: 0, block: 0, buffer: 0 };

fn place(page: &Checked) -> usize {
    page.block as usize % PLACES
}

/// Notes that a page's checksum was found to be right.
pub fn remember(page: Checked) {
    RECENT.with(|recent| recent[place(&page)].set(page));
}

/// Whether a page was verified just now; forgets that it was.
pub fn recall(page: &Checked) -> bool {
    RECENT.with(|recent| {
        let found = recent[place(page)].get() == *page;
        if found {
            recent[place(page)].set(NOTHING);
        }
        found
    })
}
