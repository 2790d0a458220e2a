//! A run in memory, written and read as an index does it.

use proptest::prelude::*;
use proptest::sample::select;
use skip_map::*;
use std::ops::Range;

pub struct Run {
    pub pages: Vec<Box<Page>>,
    pub written: Written,
}

impl Run {
    pub fn of(numbers: impl IntoIterator<Item = u64>) -> Self {
        Self::of_spans(numbers.into_iter().map(|number| number..number + 1))
    }

    pub fn of_spans(spans: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut pages = vec![];
        let mut sink = |page: &Page| {
            pages.push(Box::new(*page));
            Ok::<(), Malformed>(())
        };
        let mut writer = RunWriter::new();
        for span in spans {
            writer.push_span(span, &mut sink).unwrap();
        }
        let written = writer.finish(&mut sink).unwrap();
        assert_eq!(written.shape.pages() as usize, pages.len());
        assert_eq!(RunShape::of_pages(written.shape.pages()), Some(written.shape));
        Self { pages, written }
    }

    pub fn bytes(&self) -> usize {
        self.pages.len() * PAGE_BYTES
    }

    /// The data page that a lookup of this number starts with, through the fences, given only the bytes that it asks
    /// for.
    pub fn locate(&self, number: u64) -> Option<u32> {
        let mut page = self.written.shape.root()?;
        let mut levels = 0;
        while self.written.shape.is_fence(page) {
            let bytes = &self.pages[page as usize];
            let head = FenceHead::parse(&bytes[..HEAD_BYTES]).unwrap();
            let entry = head.entry(&bytes[head.bytes(number)], number).unwrap();
            assert_eq!(fence_entry(&bytes[..], number), Ok(entry));
            page = self.written.shape.child(page, entry).unwrap();
            levels += 1;
        }
        assert_eq!(levels, self.written.shape.levels());
        Some(page)
    }

    /// The numbers of an interval by a guess, as if the run's numbers were spread over `of`; and the number of pages
    /// that it looked at before it was certain where to start. None if the guess is wrong.
    pub fn lookup_by_guess(
        &self,
        of: &Range<u64>,
        level: u32,
        wanted: &Range<u64>,
    ) -> Option<(Vec<u64>, u32)> {
        let shape = &self.written.shape;
        let spread = EvenSpread { of: of.clone(), numbers: self.written.numbers };
        let (page, number) = (shape.likely_page(level, &spread, wanted.start)?, wanted.start);
        if level > 0 {
            let bytes = &self.pages[page as usize];
            let head = FenceHead::parse(&bytes[..HEAD_BYTES]).unwrap();
            let entry = head.entry(&bytes[head.bytes(number)], number).ok()?;
            let first = head.encloses(number, entry).then(|| shape.child(page, entry).unwrap())?;
            assert_eq!(level, 1);
            return Some((self.lookup_from(first, wanted.clone()), 2));
        }
        let mut looks = 0;
        let start = Guess::new(shape, page).find(|page| {
            looks += 1;
            let head = Head::parse(&self.pages[page as usize][..HEAD_BYTES])?;
            Ok::<_, Malformed>(head.side_of(number))
        });
        match start.unwrap() {
            Start::Here(page) | Start::At(page) => Some((self.lookup_from(page, wanted.clone()), looks)),
            Start::Nowhere => Some((vec![], looks)),
            Start::Root => None,
        }
    }

    /// The numbers of an interval.
    pub fn lookup(&self, wanted: Range<u64>) -> Vec<u64> {
        self.locate(wanted.start).map_or(vec![], |first| self.lookup_from(first, wanted))
    }

    /// The numbers of an interval, from a data page on.
    pub fn lookup_from(&self, first: u32, wanted: Range<u64>) -> Vec<u64> {
        let mut found = vec![];
        for page in first..self.written.shape.data_pages() {
            let bytes = &self.pages[page as usize];
            let head = Head::parse(&bytes[..HEAD_BYTES]).unwrap();
            if head.first() >= wanted.end {
                break;
            }
            for block in head.blocks(wanted.clone()).unwrap() {
                block.numbers(&bytes[block.bytes()], wanted.clone(), |span| found.extend(span)).unwrap();
            }
            if wanted.end <= head.last() + 1 {
                break;
            }
        }
        found
    }

    /// All numbers, by the functions that check everything.
    pub fn all(&self) -> Vec<u64> {
        let mut found = vec![];
        let mut firsts = vec![];
        for page in 0..self.written.shape.pages() {
            let bytes = &self.pages[page as usize][..];
            if self.written.shape.is_fence(page) {
                let children = self.written.shape.children(page).unwrap();
                let known: Vec<_> = children.map(|child| Some(firsts[child as usize])).collect();
                check_fence(bytes, &known).unwrap();
                firsts.push(FenceHead::parse(bytes).unwrap().first());
            } else {
                let (start, head) = (found.len(), Head::parse(bytes).unwrap());
                read_page(bytes, |span| found.extend(span)).unwrap();
                let mut appended = vec![];
                if append_page(bytes, &mut appended).unwrap() {
                    assert_eq!(appended, found[start..]);
                }
                firsts.push(head.first());
                assert_eq!((found[start], found[found.len() - 1]), (head.first(), head.last()));
            }
        }
        found
    }
}

/// Ascending distinct numbers, in stretches with different distances between numbers.
pub fn numbers(most: usize) -> impl Strategy<Value = Vec<u64>> {
    let gap = prop_oneof![
        3 => Just(1u64..2),
        2 => Just(1..3),
        2 => Just(1..6),
        2 => Just(1..1000),
        2 => Just(1 << 10..1 << 30),
        1 => Just(1 << 40..1 << 48),
    ];
    let stretch = (gap, 1..most / 4, any::<u64>());
    let start = prop_oneof![Just(0u64), 0..1000u64, 0..1u64 << 60];
    (start, prop::collection::vec(stretch, 1..8)).prop_map(|(start, stretches)| {
        let mut numbers = vec![start];
        for (gap, count, mut seed) in stretches {
            for _ in 0..count {
                seed = seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(0x9e37_79b9_7f4a_7c15);
                let distance = gap.start + (seed >> 8) % (gap.end - gap.start);
                numbers.push(numbers[numbers.len() - 1] + distance);
            }
        }
        numbers.retain(|&number| number < 1 << 63);
        numbers
    })
}

/// Pairs of key hash and range, skewed in all ways.
pub fn pairs(most: usize) -> impl Strategy<Value = (Coding, Vec<(u64, u32)>)> {
    let bits = 8..=40u8;
    let ranges = prop_oneof![Just(1u32), 2..5u32, 5..200u32, Just(1 << 20), Just(8_000_000)];
    let keys = prop_oneof![
        Just(0u64),
        Just(0xff),
        Just(0xf),
        Just(u64::MAX),
        Just(u64::MAX << 56),
        Just(u64::MAX >> 40)
    ];
    let count = select(vec![0, 1, 2, 50, most / 2, most]);
    (bits, ranges, keys, any::<u64>(), count, 0..3u8).prop_map(
        move |(bits, ranges, keys, seed, count, everywhere)| {
            let coding = Coding::new(bits, ranges).unwrap();
            let mut state = seed;
            let mut next = || {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mixed = (state ^ state >> 29).wrapping_mul(0xd134_2543_de82_ef95);
                mixed ^ mixed >> 32
            };
            let mut pairs: Vec<(u64, u32)> =
                (0..count).map(|_| (next() & keys, (next() % u64::from(ranges)) as u32)).collect();
            for _ in 0..everywhere {
                let hash = next() & keys;
                pairs.extend((0..ranges.min(most as u32)).map(|range| (hash, range)));
            }
            (coding, pairs)
        },
    )
}
