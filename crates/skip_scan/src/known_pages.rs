//! Pages of tables that a session has read, with a short hash of each row's value.
//!
//! The ranges at the end of a growing table are not summarized yet. Every lookup reads them, and mostly finds nothing
//! there. A session remembers the pages that it has read, and of those that it has read twice, the hashes of a column.
//! A later lookup looks at the rows only if one of them has the hash of its value: that takes a third of the time,
//! because each row of a page is on cache lines of its own, and the hashes of a page are next to each other.
//!
//! Invariant: hashes are kept together with the page's position in the log, of its last logged change. Whoever asks
//! gives the present position, and gets nothing if it is another one. So the caller must ensure that every change of a
//! row moves the position.

/// Pages that a session remembers. Sessions that insert side by side seldom leave more unsummarized: at most
/// `MOST_EMPTY` (512) of skip_segment's `pace`, and a batch. With hashes of 75 rows each, the pages take some 230 kB.
pub const MOST_PAGES: usize = 1024;

/// A page, and a column of its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageColumn {
    /// Identifier of the table's file.
    pub file: [u32; 3],
    /// Number of the block.
    pub block: u32,
    /// What tells a column, and the form of its values, from others.
    pub column: u64,
}

impl PageColumn {
    /// Where the page is remembered. Neighbouring blocks have different places.
    fn place(&self) -> usize {
        let column = self.column.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (self.block as usize).wrapping_add(self.file[2] as usize * 31).wrapping_add(column as usize)
            % MOST_PAGES
    }
}

/// The 16 bits of a hash that are kept.
#[inline]
pub fn short_hash(hash: u64) -> u16 {
    (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48) as u16
}

/// What is known of a page, for a lookup of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// Nothing, or it has changed since.
    Nothing,
    /// It was read once.
    ReadOnce,
    /// Some row may have the value.
    MayHold,
    /// No row has the value. So many looked live when the page was read.
    RuledOut(u64),
}

/// The rows of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRows {
    hashes: Box<[u16]>,
    live: u64,
}

impl KnownRows {
    /// Rows with these short hashes, of which `live` looked live.
    pub fn new(hashes: &[u16], live: u64) -> Self {
        Self { hashes: hashes.into(), live }
    }

    /// Whether a row has this short hash.
    #[inline]
    fn may_hold(&self, hash: u16) -> bool {
        // Without a branch for each row, eight rows are compared at a time.
        self.hashes.iter().fold(false, |found, &own| found | (own == hash))
    }
}

/// A remembered page.
#[derive(Clone, Debug, Default)]
struct RememberedPage {
    column: PageColumn,
    /// Position in the log of its last change; 0 where no page is remembered.
    position: u64,
    rows: Option<KnownRows>,
}

/// The pages that a session remembers.
#[derive(Debug, Default)]
pub struct KnownPages {
    /// Empty until the first page comes.
    pages: Vec<RememberedPage>,
}

impl KnownPages {
    /// None.
    pub const fn new() -> Self {
        Self { pages: Vec::new() }
    }

    /// What is known of a page whose last change is at this position of the log, for the value with this short hash.
    pub fn look_up(&self, column: &PageColumn, position: u64, hash: u16) -> Knowledge {
        let page = self.pages.get(column.place());
        match page.filter(|page| position != 0 && page.position == position && page.column == *column) {
            Some(RememberedPage { rows: Some(rows), .. }) if rows.may_hold(hash) => Knowledge::MayHold,
            Some(RememberedPage { rows: Some(rows), .. }) => Knowledge::RuledOut(rows.live),
            Some(_) => Knowledge::ReadOnce,
            None => Knowledge::Nothing,
        }
    }

    /// Remembers a page that was read when its last change was at this position, with its rows if they are given. It
    /// takes the place of another page.
    pub fn remember(&mut self, column: PageColumn, position: u64, rows: Option<KnownRows>) {
        if self.pages.is_empty() {
            self.pages.resize_with(MOST_PAGES, RememberedPage::default);
        }
        if let Some(page) = self.pages.get_mut(column.place()) {
            *page = RememberedPage { column, position, rows };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: PageColumn = PageColumn { file: [1, 2, 3], block: 7, column: 9 };

    fn rows(values: &[u64]) -> KnownRows {
        let hashes: Vec<u16> = values.iter().map(|&value| short_hash(value)).collect();
        KnownRows::new(&hashes, values.len() as u64)
    }

    fn look_up(known: &KnownPages, column: PageColumn, position: u64, value: u64) -> Knowledge {
        known.look_up(&column, position, short_hash(value))
    }

    #[test]
    fn knows_what_it_was_told() {
        let mut known = KnownPages::new();
        assert_eq!(look_up(&known, FIRST, 5, 10), Knowledge::Nothing);
        known.remember(FIRST, 5, None);
        assert_eq!(look_up(&known, FIRST, 5, 10), Knowledge::ReadOnce);
        known.remember(FIRST, 5, Some(rows(&[10, 20])));
        for (value, expected) in
            [(10, Knowledge::MayHold), (20, Knowledge::MayHold), (30, Knowledge::RuledOut(2))]
        {
            assert_eq!(look_up(&known, FIRST, 5, value), expected, "{value}");
        }
    }

    #[test]
    fn forgets_a_page_that_has_changed() {
        let mut known = KnownPages::new();
        known.remember(FIRST, 5, Some(rows(&[10])));
        for position in [0, 4, 6, u64::MAX] {
            assert_eq!(look_up(&known, FIRST, position, 30), Knowledge::Nothing, "{position}");
        }
        known.remember(FIRST, 6, None);
        assert_eq!(look_up(&known, FIRST, 5, 30), Knowledge::Nothing);
        assert_eq!(look_up(&known, FIRST, 6, 30), Knowledge::ReadOnce);
        // A page that was never logged has position 0, and so has a place without a page.
        assert_eq!(look_up(&known, PageColumn::default(), 0, 30), Knowledge::Nothing);
    }

    #[test]
    fn takes_no_page_for_another() {
        let mut known = KnownPages::new();
        known.remember(FIRST, 5, Some(rows(&[10])));
        let others = [
            PageColumn { file: [2, 2, 3], ..FIRST },
            PageColumn { file: [1, 3, 3], ..FIRST },
            PageColumn { file: [1, 2, 4], ..FIRST },
            PageColumn { block: FIRST.block + MOST_PAGES as u32, ..FIRST },
            PageColumn { column: 10, ..FIRST },
        ];
        for other in others {
            assert_eq!(look_up(&known, other, 5, 30), Knowledge::Nothing, "{other:?}");
        }
        // Two pages of one place: the later one stays.
        let same_place = others[3];
        assert_eq!(FIRST.place(), same_place.place());
        known.remember(same_place, 8, None);
        assert_eq!(look_up(&known, same_place, 8, 30), Knowledge::ReadOnce);
        assert_eq!(look_up(&known, FIRST, 5, 30), Knowledge::Nothing);
    }

    #[test]
    fn remembers_all_blocks_of_a_tail() {
        let mut known = KnownPages::new();
        let blocks = 1000..1000 + MOST_PAGES as u32;
        for block in blocks.clone() {
            known.remember(PageColumn { block, ..FIRST }, block.into(), Some(rows(&[block.into()])));
        }
        for block in blocks {
            let found = look_up(&known, PageColumn { block, ..FIRST }, block.into(), block.into());
            assert_eq!(found, Knowledge::MayHold, "{block}");
        }
    }

    #[test]
    fn short_hashes_of_neighbouring_numbers_differ() {
        let mut hashes: Vec<u16> = (0..1000).map(short_hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert!(hashes.len() > 980, "{}", hashes.len());
    }
}
