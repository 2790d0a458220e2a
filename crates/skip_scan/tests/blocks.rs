//! Blocks of surviving ranges are given out once each, to one process or to several, and counted.

use proptest::prelude::*;
use skip_scan::RangeSet;
use skip_scan::blocks::{Blocks, ScanCounters, SharedScan, Survivors};

fn set(len: u64, numbers: impl IntoIterator<Item = u64>) -> RangeSet {
    let mut set = RangeSet::empty(len);
    numbers.into_iter().for_each(|number| set.insert(number));
    set
}

fn survivors(ranges: &RangeSet, unfiltered: &RangeSet, pages_per_range: u32) -> Survivors {
    Survivors { ranges: ranges.clone(), unfiltered: unfiltered.clone(), pages_per_range, index_pages: 3 }
}

/// The blocks of ranges, in order.
fn blocks_of(ranges: &RangeSet, pages_per_range: u32, blocks: u32) -> Vec<u32> {
    (0..blocks).filter(|block| ranges.contains((block / pages_per_range).into())).collect()
}

/// Reads everything that is given out, as a scan does; a row is found in every range whose number `has_row` says.
fn read(blocks: &mut Blocks, has_row: impl Fn(u64) -> bool, pages_per_range: u32) -> Vec<u32> {
    let mut given = Vec::new();
    while let Some(block) = blocks.next_block() {
        given.push(block);
        blocks.entered(block);
        if has_row(u64::from(block / pages_per_range)) {
            blocks.found_row();
        }
    }
    blocks.finish_range();
    given
}

proptest! {
    #[test]
    fn one_process(
        numbers in prop::collection::vec(0..300u64, 0..200),
        open in prop::collection::vec(0..300u64, 0..50),
        pages_per_range in 1..20u32,
        missing in 0..20u32,
    ) {
        let blocks = (300 * pages_per_range).saturating_sub(missing.min(pages_per_range - 1));
        let (ranges, unfiltered) = (set(300, numbers), set(300, open));
        let mut scan =
            Blocks::new(survivors(&ranges, &unfiltered, pages_per_range), blocks, None, false);
        prop_assert_eq!(scan.is_nothing(), ranges.is_empty());
        let has_row = |range: u64| range.is_multiple_of(3);
        let expected = blocks_of(&ranges, pages_per_range, blocks);
        prop_assert_eq!(&read(&mut scan, has_row, pages_per_range), &expected);
        prop_assert_eq!(scan.next_block(), None);
        let filtered = || ranges.iter().filter(|&range| !unfiltered.contains(range));
        let once = ScanCounters {
            scans: 1,
            total: 300,
            skipped: 300 - ranges.count(),
            scanned: ranges.count(),
            full_positives: filtered().count() as u64,
            true_positives: filtered().filter(|&range| has_row(range)).count() as u64,
            unsummarized: ranges.iter().filter(|&range| unfiltered.contains(range)).count() as u64,
            removed_rows: 0,
            index_pages: 3,
        };
        prop_assert_eq!(scan.counters, once);
        // The same again after a restart, from wherever it was.
        scan.restart();
        (0..expected.len() / 2).for_each(|_| { scan.next_block(); });
        scan.restart();
        prop_assert_eq!(&read(&mut scan, has_row, pages_per_range), &expected);
        prop_assert!(scan.counters.scans == 1 && scan.counters.index_pages == 3);
    }
}

proptest! {
    /// A scan that turns after any number of blocks goes on from the block on which it turned, in the other direction,
    /// and from the other end if it was at the end.
    #[test]
    fn turns(
        numbers in prop::collection::vec(0..100u64, 0..80),
        pages_per_range in 1..7u32,
        missing in 0..7u32,
        steps in prop::collection::vec(0..60usize, 1..20),
    ) {
        let blocks = (100 * pages_per_range).saturating_sub(missing.min(pages_per_range - 1));
        let ranges = set(100, numbers);
        let mut scan = Blocks::new(survivors(&ranges, &set(100, []), pages_per_range), blocks, None, false);
        let all = blocks_of(&ranges, pages_per_range, blocks);
        // The position is that of the block that was read last, plus 1; 0 before the first, one more than their number
        // after the last.
        let (mut at, mut is_backward) = (0usize, false);
        for steps in steps {
            for _ in 0..steps {
                at = if is_backward { at.saturating_sub(1) } else { (at + 1).min(all.len() + 1) };
                let expected = at.checked_sub(1).and_then(|at| all.get(at)).copied();
                prop_assert_eq!(scan.next_block(), expected);
                expected.into_iter().for_each(|block| scan.entered(block));
            }
            // As the pages that were read ahead, some blocks are taken and forgotten.
            (0..steps % 3).for_each(|_| { scan.next_block(); });
            is_backward = !is_backward;
            // A scan that is on no block begins at the end from which it reads.
            if at == 0 || at > all.len() {
                at = if is_backward { all.len() + 1 } else { 0 };
            }
            scan.turn(is_backward, at.checked_sub(1).and_then(|at| all.get(at)).copied());
        }
        prop_assert_eq!(scan.counters.total, 100);
        prop_assert_eq!(scan.counters.skipped, 100 - ranges.count());
        prop_assert!(scan.counters.scanned <= ranges.count());
        prop_assert!(scan.counters.full_positives <= scan.counters.scanned);
        scan.restart();
        prop_assert_eq!(&read(&mut scan, |_| true, pages_per_range), &all);
    }
}

/// Several processes, whose lookups differ as they do while bits are being added, read every range that is in all of
/// them exactly once, and no block twice.
#[test]
fn several_processes() {
    for round in 0..200u64 {
        let len = 1 + round * 37 % 5000;
        let must = |range: u64| !(range * 7 + round).is_multiple_of(5);
        let shared: &'static SharedScan = Box::leak(Box::new(SharedScan::new(len as u32 * 4)));
        // Each has false positives of its own.
        let ranges_of = |number: u64| {
            set(len, (0..len).filter(|&r| must(r) || (r * 31 + number * 17).is_multiple_of(11)))
        };
        let process = |number: u64, is_worker: bool| {
            let survivors = survivors(&ranges_of(number), &RangeSet::empty(len), 4);
            let mut blocks = Blocks::new(survivors, shared.blocks(), Some(shared), is_worker);
            let given = read(&mut blocks, |_| true, 4);
            (given, blocks)
        };
        let (mut given, mut leader) = std::thread::scope(|scope| {
            let workers: Vec<_> = (1..4).map(|number| scope.spawn(move || process(number, true).0)).collect();
            let (mut given, leader) = process(0, false);
            workers.into_iter().for_each(|worker| given.extend(worker.join().unwrap()));
            (given, leader)
        });
        given.sort_unstable();
        let count = given.len();
        given.dedup();
        assert_eq!(given.len(), count, "round {round}: a block was given out twice");
        let missing = (0..len as u32 * 4)
            .find(|&block| must((block / 4).into()) && given.binary_search(&block).is_err());
        assert_eq!(missing, None, "round {round}: a block was not given out");
        leader.detach();
        let counters = leader.counters;
        assert_eq!(counters.total, len, "round {round}");
        assert_eq!(counters.scanned, count as u64 / 4, "round {round}");
        let is_of_one = (0..4).any(|number| counters.skipped == len - ranges_of(number).count());
        assert!(is_of_one, "round {round}: {counters:?}");
        assert_eq!(counters.true_positives, counters.scanned, "round {round}");
        assert_eq!(leader.next_block(), None, "nothing is left without the others");
    }
}

/// Whoever begins, and however little is read of it, what was ruled out is counted, and once.
#[test]
fn parts_of_shared_scans_count_what_was_ruled_out() {
    for is_worker in [false, true] {
        let shared: &'static SharedScan = Box::leak(Box::new(SharedScan::new(100)));
        let (ranges, open) = (set(25, [3, 9, 24]), set(25, [9, 10]));
        let new = |is_worker| Blocks::new(survivors(&ranges, &open, 4), 100, Some(shared), is_worker);
        let (mut first, mut second) = (new(is_worker), new(!is_worker));
        assert_eq!(first.next_block(), Some(12));
        first.entered(12);
        assert_eq!(second.next_block(), Some(36));
        // The scan ends here: the leader looks before workers have left.
        let leader = if is_worker { &mut second } else { &mut first };
        leader.detach();
        let counters = leader.counters;
        assert_eq!((counters.total, counters.skipped, counters.unsummarized), (25, 22, 1));
        assert_eq!(counters.scanned, 1);
    }
}

/// Whenever the leader looks, the counts make sense together.
#[test]
fn counts_in_the_middle_of_a_scan() {
    let shared: &'static SharedScan = Box::leak(Box::new(SharedScan::new(400_000)));
    let ranges = RangeSet::full(400_000);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let survivors = survivors(&ranges, &RangeSet::empty(400_000), 1);
            read(&mut Blocks::new(survivors, 400_000, Some(shared), true), |_| true, 1);
        });
        while !worker.is_finished() {
            let mut seen = ScanCounters::default();
            shared.add_to(&mut seen);
            assert!(seen.true_positives <= seen.full_positives, "{seen:?}");
            assert!(seen.full_positives <= seen.scanned, "{seen:?}");
            assert!(seen.scanned + seen.skipped <= seen.total, "{seen:?}");
        }
    });
}

#[test]
fn shared_scans_start_over() {
    let shared: &'static SharedScan = Box::leak(Box::new(SharedScan::new(100)));
    let ranges = RangeSet::full(25);
    let new = || Blocks::new(survivors(&ranges, &RangeSet::empty(25), 4), 100, Some(shared), false);
    let mut leader = new();
    assert_eq!(read(&mut leader, |_| false, 4).len(), 100);
    assert_eq!(read(&mut new(), |_| false, 4).len(), 0, "all is claimed");
    shared.restart();
    leader.restart();
    assert_eq!(read(&mut leader, |_| false, 4).len(), 100);
    assert_eq!(leader.counters.full_positives, 50);
}

/// The layout of an index may be chosen while a scan runs: processes then have ranges of different sizes.
#[test]
fn processes_agree_on_the_size_of_ranges() {
    for (first, second) in [(16, 1), (1, 16), (4, 6), (6, 4), (16, 16)] {
        let shared: &'static SharedScan = Box::leak(Box::new(SharedScan::new(103)));
        let wanted = [0u32, 33, 50, 102];
        let process = |pages: u32, is_worker| {
            let len = u64::from(103u32.div_ceil(pages));
            let ranges = set(len, (0..len).filter(|&r| wanted.iter().any(|w| u64::from(w / pages) == r)));
            Blocks::new(survivors(&ranges, &RangeSet::empty(len), pages), 103, Some(shared), is_worker)
        };
        let (mut leader, mut worker) = (process(first, false), process(second, true));
        let mut given = Vec::new();
        loop {
            let (one, other) = (leader.next_block(), worker.next_block());
            given.extend(one.into_iter().chain(other));
            if one.is_none() && other.is_none() {
                break;
            }
        }
        given.sort_unstable();
        let count = given.len();
        given.dedup();
        assert_eq!(given.len(), count, "{first}, {second}: a block was given out twice");
        assert!(wanted.iter().all(|block| given.contains(block)), "{first}, {second}: {given:?}");
        assert!(given.iter().all(|&block| block < 103), "{first}, {second}: {given:?}");
    }
}

#[test]
fn a_fetch_may_go_on_after_a_shutdown() {
    let ranges = RangeSet::full(25);
    let mut scan = Blocks::new(survivors(&ranges, &RangeSet::empty(25), 4), 100, None, false);
    assert_eq!(scan.next_block(), Some(0));
    scan.entered(0);
    scan.detach(); // what the server says between two fetches from a cursor
    scan.found_row();
    assert_eq!(scan.next_block(), Some(1));
    scan.entered(1);
    assert_eq!(scan.counters.scanned, 1);
    scan.finish_range();
    assert_eq!(scan.counters.true_positives, 1);
}
