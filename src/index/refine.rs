//! Lower false-positive rates for the new ranges of a table that has grown.
//!
//! With the same filters, and with fingerprints of the same length, a lookup reads ten times as many pages in vain in a
//! table ten times as large. A build chooses both for the table as it is ([`super::choose`]); it may be empty then. So
//! whoever summarizes new ranges first adds up what a lookup of an absent key reads in vain of those that are made as
//! new ones are now. If that is too much, new ones are made for a table ten times as large as it is at that moment.
//! What is there stays as it is: no row is read again, and the pages that are read in vain grow with the logarithm of
//! the table's size.
//!
//! A rate that an option sets stays. So does that of keys of which a search asks for several.
//!
//! Segments whose filters or fingerprints differ in length are not merged. There are few such groups, one for each
//! tenfold growth. Each segment's entry in the directory has its own number of probes, or fingerprint bits; the meta
//! page only says how new ones are made. It changes under the maintenance lock, before the new ranges are read.

use super::choose::{GROWTH, MOST_IN_VAIN, most_parts};
use crate::pages::directory::{Directory, LiveSegment};
use crate::pages::entry::Segment;
use crate::pages::meta::{self, ColumnMeta, MapForm, Meta, SegmentLayout};
use crate::pg::key_kind::KeyKind;
use crate::pg::options::{FALSE_POSITIVE_RATE, Options};
use crate::pg::{Rel, error::IndexResult};
use skip_filter::Sizing;
use skip_map::fingerprint_bits_for;

/// The most pages of the table that a lookup of one key reads in vain of the maps of one form: about as much as the
/// next group of maps costs, a page or two of the index.
const MOST_OF_MAPS: f64 = 1.0;
/// The same of filters, by their target rate; really they read a third of that. A lookup reads some fifteen pages of
/// each segment of filters, and a new group has one to five of them. With a limit of 16 pages a lookup took half as
/// long again right after the new group had begun (20 million rows, 2 GB), and no less in a table twice as large.
const MOST_OF_FILTERS: f64 = 128.0;
/// The same where values have several keys: a table that is built does not get other maps as soon as a range is added.
const MOST_OF_SEVERAL_KEYS: f64 = 2.0 * MOST_IN_VAIN;

/// How new segments of a column are made. The rest of the column's entry in the meta page may be changed by an insert,
/// without the maintenance lock (`give_up_columns` in [`super::delta_writer`]).
#[derive(Clone, Copy)]
struct Making {
    sizing: Sizing,
    rate: f64,
    layout: SegmentLayout,
}

impl Making {
    fn of(column: &ColumnMeta) -> Self {
        let &ColumnMeta { sizing, rate, layout, .. } = column;
        Self { sizing, rate, layout }
    }

    /// The number of ranges, or parts of ranges, that an absent key is expected to match in a map of so many pairs, or
    /// in so many filters.
    fn in_vain(self, pairs: f64, filters: f64) -> f64 {
        match self.layout {
            SegmentLayout::Map(form) => pairs / f64::from(form.fingerprint_bits).exp2(),
            _ => filters * self.rate,
        }
    }

    /// Whether a segment is made as new ones are.
    fn has_made(self, segment: &Segment) -> bool {
        match self.layout {
            SegmentLayout::Map(form) => segment.map().is_some_and(|size| size.form == form),
            _ => segment.span().num_probes == self.sizing.num_probes,
        }
    }
}

/// Lowers the rates of new ranges where a lookup would read too much in vain, once `coming` more ranges are made. The
/// caller holds the maintenance lock.
///
/// # Errors
/// Damage to the meta page.
pub fn follow_growth(heap: Rel, index: Rel, directory: &Directory<'_>, coming: u32) -> IndexResult<()> {
    let (meta, mut finer) = (Meta::read(index)?, Vec::new());
    let summarized = f64::from(meta.watermark.max(1));
    for (c, column) in meta.columns.iter().enumerate() {
        let making = Making::of(column);
        let Some(most) = most_in_vain(KeyKind::of_column(index, c), making.layout) else { continue };
        let pages = f64::from(meta.pages_per_part(c as u16));
        let is_too_much = |sums: &SegmentSums| {
            let coming = making.in_vain(sums.pairs / summarized, 1.0) * f64::from(coming);
            (sums.in_vain + coming) * pages > most
        };
        // Mostly a look at all segments is enough; what is being merged counts twice here.
        let all = directory.all_segments().filter(|s| usize::from(s.column) == c);
        if !is_too_much(&SegmentSums::of(making, all.map(|s| (s, 1.0)))) {
            continue;
        }
        let options = Options::of(index);
        if options.set_rate_of(index, c).is_some() {
            continue;
        }
        let sums = SegmentSums::of(making, used(directory, c as u16));
        if !is_too_much(&sums) {
            continue;
        }
        let blocks = f64::from(heap.blocks().max(1));
        let made = match making.layout {
            SegmentLayout::Map(form) => {
                // The table may have many rows that are not summarized yet.
                let growth = blocks / (summarized * f64::from(meta.pages_per_range));
                let most_parts = most_parts(meta.pages_per_range, meta.pages_per_part(c as u16));
                longer_fingerprints(making, form, sums.pairs * growth.max(1.0) * pages / most, most_parts)
            }
            _ => larger_filters(making, most, blocks, options.rate_of(index, c)),
        };
        finer.extend(made.map(|made| (c, made)));
    }
    if finer.is_empty() {
        return Ok(());
    }
    meta::update(index, |meta| {
        for &(c, Making { sizing, rate, layout }) in &finer {
            let column = &mut meta.columns[c];
            (column.sizing, column.rate, column.layout) = (sizing, rate, layout);
        }
    })
}

/// The most pages of the table that a lookup of one key may read in vain of the segments of one form; None if that does
/// not matter.
fn most_in_vain(kind: KeyKind, layout: SegmentLayout) -> Option<f64> {
    match layout {
        SegmentLayout::NotChosen(_) | SegmentLayout::Bounds => None,
        _ if kind.asks_for_several() => None,
        _ if kind.default_rate().is_some() => Some(MOST_OF_SEVERAL_KEYS),
        SegmentLayout::Filters => Some(MOST_OF_FILTERS),
        SegmentLayout::Map(_) => Some(MOST_OF_MAPS),
    }
}

/// Sums over the segments of a column.
#[derive(Default)]
struct SegmentSums {
    /// The number of ranges, or parts of ranges, that an absent key is expected to match in those that are made as new
    /// ones are.
    in_vain: f64,
    /// Pairs of all maps.
    pairs: f64,
}

impl SegmentSums {
    /// The sums over segments, each with the share of its pairs that counts.
    fn of(new: Making, segments: impl Iterator<Item = (Segment, f64)>) -> Self {
        let mut sums = Self::default();
        for (segment, share) in segments {
            let pairs = share * segment.map().map_or(0.0, |size| size.pairs.into());
            sums.pairs += pairs;
            if new.has_made(&segment) {
                sums.in_vain += new.in_vain(pairs, segment.width.into());
            }
        }
        sums
    }
}

/// The segments of a column that lookups use, each with the share of its pairs that they find there. Of a map that is
/// being merged, some keys are in the new one already.
fn used(directory: &Directory<'_>, column: u16) -> impl Iterator<Item = (Segment, f64)> {
    let share = |live: &LiveSegment| live.keys.share() / live.key_part.keys().share();
    let live = directory.in_use(column).into_iter().map(move |live| (live.segment, share(&live)));
    live.chain(directory.additions(column).into_iter().map(|s| (s, 1.0)))
}

/// Fingerprints for [`GROWTH`] times the present pairs: `pairs / 2^bits` is 1 then.
fn longer_fingerprints(now: Making, form: MapForm, pairs: f64, most_parts: u32) -> Option<Making> {
    let fingerprint_bits = fingerprint_bits_for(GROWTH * pairs, 1.0, most_parts);
    let layout = SegmentLayout::Map(MapForm { fingerprint_bits, ..form });
    (fingerprint_bits > form.fingerprint_bits).then_some(Making { layout, ..now })
}

/// Filters for [`GROWTH`] times the present table, of which `most` pages may be read in vain; or those of the default
/// rate, which do for a small table.
fn larger_filters(now: Making, most: f64, blocks: f64, default: f64) -> Option<Making> {
    let rate = if default * blocks <= most { default } else { most / blocks / GROWTH };
    let rate = rate.max(FALSE_POSITIVE_RATE.0);
    let sizing = Sizing::for_rate(rate)?;
    (sizing.num_probes > now.sizing.num_probes).then_some(Making { rate, sizing, ..now })
}
