//! Heap pages with every tuple version that is physically on them.
//!
//! A page is copied under its share lock and then read without any lock, as plain bytes. In this way the summarizing
//! scan reads tuples that no snapshot shows (dead ones, old versions of HOT chains), and does not hash under the
//! buffer's content lock. Everything is bounds-checked: a damaged heap page yields [`Fields::Odd`], which makes the
//! range match everything, not a crash.

use super::{
    Rel,
    datum::{ColumnLayout, Repr, Value},
    server,
};
use pgrx::pg_sys::{self, Datum};
use skip_segment::pace::BlockFill;
use skip_segment::page::{PAGE, get_u16, get_u32};

const _: () = assert!(cfg!(target_endian = "little"), "tuple headers are read as on little-endian machines");

/// Offset of the first line pointer: the size of the page header.
pub(super) const LINE_POINTERS: usize = 24;
const PD_LOWER: usize = 12;
const PD_UPPER: usize = 14;
const PD_SPECIAL: usize = 16;
const LP_NORMAL: u32 = 1;
const LP_REDIRECT: u32 = 2;
// Offsets and flags of HeapTupleHeaderData.
pub(super) const T_XMIN: usize = 0;
pub(super) const T_INFOMASK2: usize = 18;
pub(super) const T_INFOMASK: usize = 20;
pub(super) const T_HOFF: usize = 22;
pub(super) const T_BITS: usize = 23;
pub(super) const HEAP_HASNULL: u16 = 0x0001;
const HEAP_HASEXTERNAL: u16 = 0x0004;
const HEAP_XMIN_COMMITTED: u16 = 0x0100;
const HEAP_XMIN_INVALID: u16 = 0x0200;
const HEAP_XMAX_COMMITTED: u16 = 0x0400;
const HEAP_XMAX_LOCK_ONLY: u16 = 0x0080;
pub(super) const HEAP_NATTS_MASK: u16 = 0x07FF;

/// Whether a tuple's values may be evaluated, detoasted or passed to functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Live, or being deleted.
    Usable,
    /// Inserted by this transaction, which is in progress.
    Inserting,
    /// Inserted by another transaction in progress: if that aborts, its out-of-line values may be removed at any time.
    InsertedByOther,
    /// Recently dead: some snapshot may still see it, but its out-of-line values may be removed at any time.
    RecentlyDead,
    /// Deleted, and dead to all transactions on this server; a standby's snapshot may still see it.
    Dead,
    /// Inserted by a transaction that aborted: no snapshot ever sees it, here or on a standby.
    Aborted,
}

#[repr(C, align(8))]
struct AlignedPage([u8; PAGE]);

/// Copies heap pages one at a time.
pub struct HeapReader<'a> {
    heap: Rel<'a>,
    strategy: pg_sys::BufferAccessStrategy,
    page: Box<AlignedPage>,
    standings: Vec<Standing>,
}

impl<'a> HeapReader<'a> {
    /// A reader; with `bulk`, it has a ring of buffers of its own, like sequential scans of large tables.
    pub fn new(heap: Rel<'a>, bulk: bool) -> Self {
        let strategy = if bulk {
            // SAFETY: allocated in the current memory context, freed with it.
            unsafe { pg_sys::GetAccessStrategy(pg_sys::BufferAccessStrategyType::BAS_BULKREAD) }
        } else {
            std::ptr::null_mut()
        };
        Self { heap, strategy, page: Box::new(AlignedPage([0; PAGE])), standings: Vec::new() }
    }

    /// Copies a block; with `horizon`, the standing of every tuple is determined under the same lock.
    pub fn load(&mut self, block: u32, horizon: Option<pg_sys::TransactionId>) {
        self.standings.clear();
        // SAFETY: the block exists (the caller has read the relation's size and holds a lock against truncation); the
        // page is copied under the share lock.
        unsafe {
            let buffer = server::ReadBufferExtended(
                self.heap.raw(),
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_NORMAL,
                self.strategy,
            );
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let source = pg_sys::BufferGetPage(buffer).cast::<u8>();
            std::ptr::copy_nonoverlapping(source, self.page.0.as_mut_ptr(), PAGE);
            if let Some(horizon) = horizon {
                self.standings = standings(self.heap, buffer, block, &self.page.0, horizon);
            }
            pg_sys::UnlockReleaseBuffer(buffer);
        }
    }

    /// All tuples with storage on the last loaded page.
    pub fn tuples(&self) -> impl Iterator<Item = Tuple<'_>> {
        let page = &self.page.0;
        line_pointers(page)
            .filter_map(move |(offset, at, len)| Some(Tuple { offset, bytes: page.get(at..at + len)? }))
    }

    /// The offset numbers on the last loaded page by which an index may refer to rows: those of tuples, and those that
    /// were redirected to other versions of their rows.
    pub fn row_offsets(&self) -> impl Iterator<Item = u16> {
        items(&self.page.0)
            .filter(|(_, item)| matches!(state(*item), LP_NORMAL | LP_REDIRECT))
            .map(|item| item.0)
    }

    /// The standing of a tuple on the last loaded page; Dead if the page was loaded without a horizon.
    pub fn standing(&self, tuple: &Tuple<'_>) -> Standing {
        self.standings.get(usize::from(tuple.offset) - 1).copied().unwrap_or(Standing::Dead)
    }
}

/// What a block of a table has.
pub fn fill(heap: Rel, block: u32) -> BlockFill {
    let mut header = [0u8; LINE_POINTERS];
    // SAFETY: the block exists, because the caller has inserted a row into it or behind it and holds a lock against
    // truncation; the page header is copied under the share lock.
    unsafe {
        let buffer = server::ReadBufferExtended(
            heap.raw(),
            pg_sys::ForkNumber::MAIN_FORKNUM,
            block,
            pg_sys::ReadBufferMode::RBM_NORMAL,
            std::ptr::null_mut(),
        );
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
        let source = pg_sys::BufferGetPage(buffer).cast::<u8>();
        std::ptr::copy_nonoverlapping(source, header.as_mut_ptr(), LINE_POINTERS);
        pg_sys::UnlockReleaseBuffer(buffer);
    }
    let [lower, upper, special] =
        [PD_LOWER, PD_UPPER, PD_SPECIAL].map(|at| usize::from(get_u16(&header, at)));
    let reserved = PAGE * (100 - heap.fill_factor().min(100)) / 100;
    BlockFill {
        size: PAGE,
        free: upper.saturating_sub(lower).saturating_sub(reserved),
        rows: lower.saturating_sub(LINE_POINTERS) / 4,
        used: special.saturating_sub(upper),
    }
}

/// A page of a table in a buffer.
#[derive(Clone, Copy)]
pub struct HeapPage {
    page: *const u8,
    buffer: pg_sys::Buffer,
}

impl HeapPage {
    /// The page of a buffer.
    ///
    /// # Safety
    /// The buffer stays pinned and locked, for reading at least, as long as the result is used.
    pub unsafe fn of(buffer: pg_sys::Buffer) -> Self {
        // SAFETY: a pinned buffer.
        Self { page: unsafe { pg_sys::BufferGetPage(buffer).cast() }, buffer }
    }

    /// The number of the block.
    pub fn block(self) -> u32 {
        // SAFETY: a pinned buffer.
        unsafe { unguarded::BufferGetBlockNumber(self.buffer) }
    }

    /// The position in WAL of the page's last logged change. Setting hint bits may move it without a change of a row.
    pub fn wal_position(self) -> u64 {
        // SAFETY: a pinned buffer. Hint bits are set under a share lock, too: the server's function reads both halves
        // of the position as they were written together.
        unsafe { unguarded::BufferGetLSNAtomic(self.buffer) }
    }

    /// Address, length and offset number of every item with storage. Items that are not within the page are left out;
    /// the server finds nothing in them either.
    #[inline]
    pub fn items(self) -> impl Iterator<Item = (*const u8, usize, u16)> {
        let Self { page, .. } = self;
        // SAFETY: within a page, whose lower bound is compared with its size.
        let word = move |at: usize| unsafe { page.add(at).cast::<u32>().read_unaligned() };
        let end = (word(PD_LOWER) as usize & 0xFFFF).clamp(LINE_POINTERS, PAGE);
        (LINE_POINTERS..end - 3.min(end - LINE_POINTERS)).step_by(4).filter_map(move |at| {
            let item = word(at);
            let (start, len) = ((item & 0x7FFF) as usize, (item >> 17) as usize);
            let is_row = (item >> 15) & 3 == LP_NORMAL && len >= T_BITS && start + len <= PAGE;
            is_row.then(|| (page.wrapping_add(start), len, ((at - LINE_POINTERS) / 4 + 1) as u16))
        })
    }
}

mod unguarded {
    use pgrx::pg_sys::{BlockNumber, Buffer, XLogRecPtr};
    // SAFETY: the signatures of bufmgr.h in every supported version. Neither raises an error for a pinned buffer.
    unsafe extern "C-unwind" {
        pub fn BufferGetBlockNumber(buffer: Buffer) -> BlockNumber;
        pub fn BufferGetLSNAtomic(buffer: Buffer) -> XLogRecPtr;
    }
}

/// Offset number and line pointer of every item.
fn items(page: &[u8; PAGE]) -> impl Iterator<Item = (u16, u32)> + '_ {
    let end = usize::from(get_u16(page, PD_LOWER)).clamp(LINE_POINTERS, PAGE);
    let pointers = page[LINE_POINTERS..end].chunks_exact(4).map(|item| get_u32(item, 0));
    (1..).zip(pointers)
}

/// The state of a line pointer.
fn state(item: u32) -> u32 {
    (item >> 15) & 3
}

/// Offset number, start and length of every item with storage.
fn line_pointers(page: &[u8; PAGE]) -> impl Iterator<Item = (u16, usize, usize)> + '_ {
    let with_storage = items(page).filter(|(_, item)| state(*item) == LP_NORMAL);
    with_storage.map(|(offset, item)| (offset, (item & 0x7FFF) as usize, (item >> 17) as usize))
}

/// # Safety
/// `buffer` holds `block` of `heap` under at least a share lock; `page` is its copy.
unsafe fn standings(
    heap: Rel,
    buffer: pg_sys::Buffer,
    block: u32,
    page: &[u8; PAGE],
    horizon: pg_sys::TransactionId,
) -> Vec<Standing> {
    let mut found = Vec::new();
    for (offset, at, len) in line_pointers(page) {
        found.resize(usize::from(offset), Standing::Dead);
        if len < T_BITS || at + len > PAGE {
            continue;
        }
        // SAFETY: the tuple is on the locked page, at the same offset as in its copy.
        let standing = unsafe {
            let mut tuple = pg_sys::HeapTupleData {
                t_len: len as u32,
                t_tableOid: heap.oid(),
                t_data: pg_sys::BufferGetPage(buffer).cast::<u8>().add(at).cast(),
                ..Default::default()
            };
            pgrx::itemptr::item_pointer_set_all(&mut tuple.t_self, block, offset);
            match pg_sys::HeapTupleSatisfiesVacuum(&mut tuple, horizon, buffer) {
                pg_sys::HTSV_Result::HEAPTUPLE_LIVE | pg_sys::HTSV_Result::HEAPTUPLE_DELETE_IN_PROGRESS => {
                    Standing::Usable
                }
                pg_sys::HTSV_Result::HEAPTUPLE_INSERT_IN_PROGRESS if is_own(&tuple) => Standing::Inserting,
                pg_sys::HTSV_Result::HEAPTUPLE_INSERT_IN_PROGRESS => Standing::InsertedByOther,
                pg_sys::HTSV_Result::HEAPTUPLE_RECENTLY_DEAD => Standing::RecentlyDead,
                _ if is_aborted((*tuple.t_data).t_infomask) => Standing::Aborted,
                _ => Standing::Dead,
            }
        };
        found[usize::from(offset) - 1] = standing;
    }
    found
}

/// Whether a tuple looks live by its hint bits.
#[inline]
pub fn looks_live(infomask: u16) -> bool {
    let deleted = infomask & HEAP_XMAX_COMMITTED != 0 && infomask & HEAP_XMAX_LOCK_ONLY == 0;
    !is_aborted(infomask) && !deleted
}

/// Whether hint bits say that a tuple's inserter aborted. The preceding visibility check sets them.
fn is_aborted(infomask: u16) -> bool {
    infomask & (HEAP_XMIN_COMMITTED | HEAP_XMIN_INVALID) == HEAP_XMIN_INVALID
}

/// Whether a tuple was inserted by the current transaction.
///
/// # Safety
/// `tuple` is a whole tuple.
unsafe fn is_own(tuple: &pg_sys::HeapTupleData) -> bool {
    // SAFETY: standings() holds the lock of the page with the header. A tuple in progress has a plain xmin.
    unsafe { pg_sys::TransactionIdIsCurrentTransactionId((*tuple.t_data).t_choice.t_heap.t_xmin) }
}

/// The horizon below which deleted tuples are dead to all transactions on this server.
pub fn dead_horizon(heap: Rel) -> pg_sys::TransactionId {
    // SAFETY: heap is open.
    unsafe { pg_sys::GetOldestNonRemovableTransactionId(heap.raw()) }
}

/// One tuple version: header and data.
#[derive(Clone, Copy)]
pub struct Tuple<'a> {
    /// Offset number on its page, from 1.
    pub offset: u16,
    /// The whole tuple.
    pub bytes: &'a [u8],
}

impl<'a> Tuple<'a> {
    fn infomask(&self) -> u16 {
        get_u16(self.bytes, T_INFOMASK)
    }

    /// The transaction that inserted it, as its header says.
    pub fn xmin(&self) -> u32 {
        get_u32(self.bytes, T_XMIN)
    }

    /// Whether some value is stored out of line.
    pub fn has_external(&self) -> bool {
        self.infomask() & HEAP_HASEXTERNAL != 0
    }

    /// Whether the tuple looks live by its hint bits, which is precise enough for counting rows. A tuple without hint
    /// bits counts as live.
    pub fn looks_live(&self) -> bool {
        looks_live(self.infomask())
    }
}

/// A value in a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    Null,
    /// A fixed-length value.
    Fixed(&'a [u8]),
    /// A plain varlena in the tuple: all of its bytes, and the length of its header.
    Plain(&'a [u8], usize),
    /// A varlena compressed in the tuple, with its header.
    Compressed(&'a [u8]),
    /// A varlena stored out of line.
    External,
}

impl<'a> Field<'a> {
    /// The value as an argument for a function of its type; None for NULL, for an out-of-line value, and for a value
    /// with a representation other than `repr`.
    pub fn value(&self, repr: Repr) -> Option<Value<'a>> {
        match *self {
            Field::Fixed(bytes) => Value::on_page(bytes, repr),
            Field::Plain(bytes, _) | Field::Compressed(bytes) if repr == Repr::Varlena => {
                // SAFETY: next_field() has returned all bytes of the varlena, as its header says.
                Some(unsafe { Value::new(Datum::from(bytes.as_ptr()), repr) })
            }
            _ => None,
        }
    }
}

/// The result of reading a tuple's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// All columns were read.
    Read,
    /// The tuple is older than a column (ADD COLUMN): its value is in the catalog.
    Short,
    /// The tuple cannot be read.
    Odd,
}

/// Finds the values of chosen columns in tuples.
pub struct ColumnFinder {
    layouts: Vec<ColumnLayout>,
    /// 0-based columns, in the order of the caller's list.
    wanted: Vec<usize>,
    last: usize,
    /// Offset of each wanted column, if all columns before it have fixed length; only for tuples without NULLs.
    fixed_at: Vec<Option<usize>>,
}

impl ColumnFinder {
    /// A finder for these columns (0-based); `layouts` are those of the table's first columns.
    pub fn new(layouts: Vec<ColumnLayout>, wanted: Vec<usize>) -> Self {
        let last = wanted.iter().copied().max().unwrap_or(0);
        let mut offsets = Vec::with_capacity(last + 1);
        let mut at = Some(0usize);
        for layout in layouts.iter().take(last + 1) {
            let here = if layout.len > 0 { at.map(|a| layout.aligned(a)) } else { None };
            offsets.push(here);
            at = here.map(|a| a + layout.len as usize);
        }
        let fixed_at = wanted.iter().map(|&w| offsets.get(w).copied().flatten()).collect();
        Self { layouts, wanted, last, fixed_at }
    }

    /// Writes the wanted columns' values to `out`, which must be as long as the list given to new().
    pub fn read<'a>(&self, tuple: &Tuple<'a>, out: &mut [Field<'a>]) -> Fields {
        let bytes = tuple.bytes;
        let hoff = bytes.get(T_HOFF).copied().map_or(0, usize::from);
        let columns = usize::from(get_u16(bytes, T_INFOMASK2) & HEAP_NATTS_MASK);
        if hoff < T_BITS || bytes.len() < hoff {
            return Fields::Odd;
        }
        if columns <= self.last {
            return Fields::Short;
        }
        let data = &bytes[hoff..];
        let has_nulls = tuple.infomask() & HEAP_HASNULL != 0;
        if !has_nulls && self.read_fixed(data, out) {
            return Fields::Read;
        }
        let nulls = if has_nulls { Some(&bytes[T_BITS..hoff]) } else { None };
        if self.walk(data, nulls, out).is_some() { Fields::Read } else { Fields::Odd }
    }

    fn read_fixed<'a>(&self, data: &'a [u8], out: &mut [Field<'a>]) -> bool {
        for ((&column, &at), out) in self.wanted.iter().zip(&self.fixed_at).zip(out) {
            let value = at.and_then(|at| data.get(at..at + self.layouts[column].len as usize));
            let Some(value) = value else { return false };
            *out = Field::Fixed(value);
        }
        true
    }

    fn walk<'a>(&self, data: &'a [u8], nulls: Option<&[u8]>, out: &mut [Field<'a>]) -> Option<()> {
        let mut at = 0usize;
        for column in 0..=self.last {
            let is_null = match nulls {
                Some(bits) => bits.get(column / 8)? & (1 << (column % 8)) == 0,
                None => false,
            };
            let field = if is_null { Field::Null } else { next_field(data, &mut at, self.layouts[column])? };
            for (&wanted, out) in self.wanted.iter().zip(out.iter_mut()) {
                if wanted == column {
                    *out = field;
                }
            }
        }
        Some(())
    }
}

/// The end of the value that is at `at` in a row's data, or behind padding. None if it does not fit in the data.
#[inline]
pub(super) fn end_of_value(data: &[u8], mut at: usize, layout: ColumnLayout) -> Option<usize> {
    next_field(data, &mut at, layout).map(|_| at)
}

/// Reads the value at `at` and moves past it, like att_align_pointer, fetchatt and att_addlength_pointer.
#[inline]
fn next_field<'a>(data: &'a [u8], at: &mut usize, layout: ColumnLayout) -> Option<Field<'a>> {
    if layout.len > 0 {
        let from = layout.aligned(*at);
        *at = from + layout.len as usize;
        return data.get(from..*at).map(Field::Fixed);
    }
    if layout.len != -1 {
        return None; // cstring: no table column has that type
    }
    // A varlena with a short header is not aligned. Padding bytes are zero, and no short header is.
    let from = if *data.get(*at)? != 0 { *at } else { layout.aligned(*at) };
    let head = *data.get(from)?;
    let (field, end) = match head {
        0x01 => {
            // Out of line: header byte, tag byte, then 16 bytes for a value on disk (VARTAG_ONDISK = 18).
            let on_disk = *data.get(from + 1)? == 18;
            (Field::External, if on_disk { from + 18 } else { return None })
        }
        h if h & 1 == 1 => {
            let end = from + usize::from(h >> 1).max(1);
            (Field::Plain(data.get(from..end)?, 1), end)
        }
        _ => {
            let word = get_u32(data.get(from..from + 4)?, 0);
            let end = from + (word >> 2) as usize;
            let plain = word & 3 == 0;
            let whole = data.get(from..end).filter(|whole| whole.len() >= 4)?;
            (if plain { Field::Plain(whole, 4) } else { Field::Compressed(whole) }, end)
        }
    };
    *at = end;
    Some(field)
}
