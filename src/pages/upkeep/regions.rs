//! Regions: the segments of a column in groups. Segments whose ranges overlap are in one group.
//!
//! A region is one segment; or the maps of all key parts, which have the same ranges; or the maps of a merge that goes
//! key part by key part ([`super::unfinished`]) and is not at its end: the new maps, and the sources that are not
//! retired yet. Code that chooses segments by their ranges, to merge or to retire them, chooses whole regions. So no
//! range stays summarized for some keys only.

use crate::pages::directory::{Directory, LiveSegment};
use crate::pages::entry::Segment;
use crate::pages::map;
use skip_map::key_part::{KeyPart, KeySet, KeySpan, MOST_DEPTH, are_covered};

/// The ranges and keys of a segment that is to be made of others.
#[derive(Clone, Copy)]
pub struct MergeTarget {
    pub column: u16,
    pub first_range: u32,
    pub end: u32,
    pub key_part: KeyPart,
}

/// Segments of a column, in one stretch of ranges, which overlap.
pub struct Region {
    pub first_range: u32,
    /// The first range behind it.
    pub end: u32,
    /// By first range. Segments that lookups do not use are not among them.
    pub live: Vec<LiveSegment>,
}

/// The regions of a column, by their ranges.
pub fn of_column(directory: &Directory<'_>, column: u16) -> Vec<Region> {
    of_live(directory.in_use(column))
}

/// The regions of a column of these segments, by their ranges.
pub fn of_live(live: Vec<LiveSegment>) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for segment in live {
        match regions.last_mut().filter(|region| segment.first_range < region.end) {
            Some(region) => {
                region.end = region.end.max(segment.end_range());
                region.live.push(segment);
            }
            None => {
                let (first_range, end) = (segment.first_range, segment.end_range());
                regions.push(Region { first_range, end, live: vec![segment] });
            }
        }
    }
    regions
}

impl Region {
    /// Number of ranges.
    pub fn width(&self) -> u32 {
        self.end - self.first_range
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u64 {
        self.live.iter().map(|s| u64::from(s.blocks)).sum()
    }

    /// The depth of the finest key part.
    pub fn depth(&self) -> u8 {
        self.live.iter().map(|s| s.key_part.depth()).max().unwrap_or(0)
    }

    /// Whether it consists of maps.
    pub fn is_of_maps(&self) -> bool {
        self.live.iter().all(|s| s.map().is_some())
    }

    /// Its segments, as entries of the directory.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.live.iter().map(|live| live.segment)
    }

    /// Its first segment: all of a region are of the same kind.
    pub fn first(&self) -> Option<&Segment> {
        self.live.first().map(|live| &live.segment)
    }

    /// Whether it can become one segment with the region behind it: they are neighbours, with filters of one size or
    /// maps of one form.
    pub fn joins(&self, next: &Self) -> bool {
        let (Some(one), Some(other)) = (self.first(), next.first()) else { return false };
        let is_alike = match (one.map(), other.map()) {
            (Some(one), Some(other)) => one.form == other.form,
            (None, None) => one.kind == other.kind,
            _ => false,
        };
        is_alike && self.end == next.first_range
    }

    /// Whether all ranges are summarized for all keys.
    pub fn is_complete(&self) -> bool {
        let spans: Vec<KeySpan> = self.live.iter().map(LiveSegment::used_span).collect();
        are_covered(&spans, KeySet::ALL, (self.first_range, self.end))
    }

    /// The number of segments that a lookup of one key meets, at most.
    pub fn most_met(&self) -> usize {
        let met = |part: KeyPart| self.live.iter().filter(|live| live.keys.intersects(part.keys())).count();
        KeyPart::all(MOST_DEPTH).map(met).max().unwrap_or(0)
    }

    /// The key part to be merged next, if the region is in a merge: its segments do not all have the same ranges and
    /// depth.
    pub fn next_part(&self) -> Option<KeyPart> {
        let is_exact = |s: &LiveSegment| (s.first_range, s.end_range()) == (self.first_range, self.end);
        let first = self.live.first()?;
        let is_uniform = |s: &LiveSegment| is_exact(s) && s.key_part.depth() == first.key_part.depth();
        if !self.is_of_maps() || self.live.iter().all(is_uniform) {
            return None;
        }
        // Once parts are merged, they say the depth.
        let has_begun = self.live.iter().any(|s| is_exact(s) && !s.key_part.is_whole());
        let depth = if has_begun { self.depth() } else { depth_of(std::slice::from_ref(self)) };
        let is_merged = |part: &KeyPart| self.live.iter().any(|s| is_exact(s) && s.key_part == *part);
        let sources: Vec<Segment> = self.segments().filter(|s| !is_exact_part(s, self, depth)).collect();
        let merged = KeyPart::all(depth).filter(is_merged);
        let merged = merged.fold(KeySet::NONE, |merged, part| merged.union(part.keys()));
        parts_in_order(&sources, depth, merged).into_iter().find(|part| !is_merged(part))
    }
}

/// Whether a segment has the ranges of a region, and keys of a part of this depth.
fn is_exact_part(s: &Segment, region: &Region, depth: u8) -> bool {
    (s.first_range, s.end_range(), s.key_part.depth()) == (region.first_range, region.end, depth)
}

/// The key parts of this depth, in the order in which maps are best merged into one map of each: that in which the
/// parts of the largest of them lie in the file.
///
/// A part of that map is retired when its keys are merged. The next one is its neighbour, so the blocks that they leave
/// are one extent, with room for a part of the new map, which is larger. Parts of the new map are put into the first
/// extents with room, so they lie in the order in which they will be merged again. (In the order of the keys, maps that
/// are divided less finely could be retired earlier, but the parts of the largest one leave single holes: a quarter of
/// a growing index was free then, instead of an eighth.)
///
/// `merged` are the keys that are merged already. If only some keys of a part of the largest map are among them, the
/// key parts that overlap this part come first.
pub fn parts_in_order(maps: &[Segment], depth: u8, merged: KeySet) -> Vec<KeyPart> {
    let ranges = |s: &Segment| (s.first_range, s.width);
    // The largest map is chosen by its width, which does not change while its key parts are retired. So the order does
    // not change during a merge either.
    let largest = maps.iter().map(ranges).max_by_key(|&(first, width)| (width, first));
    let largest: Vec<&Segment> = maps.iter().filter(|s| Some(ranges(s)) == largest && s.blocks > 0).collect();
    let place = |part: &KeyPart| {
        let of_part = largest.iter().filter(|s| s.key_part.keys().intersects(part.keys()));
        let is_begun = |s: &Segment| {
            let keys = s.key_part.keys();
            merged.intersects(keys) && !merged.contains(keys)
        };
        of_part.map(|s| (!is_begun(s), s.first_block)).min()
    };
    let mut parts: Vec<KeyPart> = KeyPart::all(depth).collect();
    parts.sort_by_key(place);
    parts
}

/// The depth of the key parts of one map of all of these regions. It is not less than theirs, so that each part of the
/// merge is made of whole parts or less.
pub fn depth_of(regions: &[Region]) -> u8 {
    let Some(size) = regions.first().and_then(Region::first).and_then(Segment::map) else { return 0 };
    let blocks = regions.iter().map(Region::blocks).sum();
    regions.iter().map(Region::depth).max().unwrap_or(0).max(map::depth_of(size.form, blocks))
}
