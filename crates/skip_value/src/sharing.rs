//! How much of the memory that a server's processes share may be taken without a look at what others take.

/// The most bytes that a process may take of `total` bytes of which `free` are free, while `workers` others take as
/// much at the same time, from any number of the server's shared areas.
///
/// An area of `s` bytes in segments makes a segment for a request that fits into none: of its size, or of `s / 2` and 1
/// MB if that is more (`make_new_segment` of PostgreSQL's dsa.c). So a segment is half full at least before there is
/// the next, and `n` requests of `r` bytes make an area grow to `2 s + 4 n r` and a few MB at most. With this `r`, that
/// is two thirds of all memory, while less than a third is used. From there on there is nothing to take: others find
/// their part.
pub fn sharable(total: u64, free: u64, workers: u64) -> u64 {
    let used = total.saturating_sub(free);
    total.saturating_sub(used.saturating_mul(3)) / 12 / workers.max(1)
}

#[cfg(test)]
mod tests {
    use super::sharable;
    use skip_filter::hash_i64;

    const MB: u64 = 1 << 20;

    /// An area: its segments, each with its size and what is free at its end.
    #[derive(Default)]
    struct Area(Vec<(u64, u64)>);

    impl Area {
        fn size(&self) -> u64 {
            self.0.iter().map(|(size, _)| size).sum()
        }

        /// As dsa.c does it, but without freeing, and with an ample 1 % of each segment for its own use.
        fn allocate(&mut self, bytes: u64) {
            if let Some((_, free)) = self.0.iter_mut().find(|(_, free)| *free >= bytes) {
                *free -= bytes;
                return;
            }
            let usual = MB << (self.0.len() as u32 / 2).min(20);
            let size = if usual / 100 * 99 >= bytes { usual } else { bytes + bytes / 99 + 65_536 };
            self.0.push((size, size / 100 * 99 - bytes.min(size / 100 * 99)));
        }
    }

    /// Many processes that look at the same time, and then all take, again and again, the most or some of it.
    #[test]
    fn what_is_shared_stays_below_two_thirds() {
        for total in [61 * MB, 64 * MB, 120 * MB, 1 << 30, 12 << 30] {
            for (workers, areas) in [(1, 1), (8, 1), (8, 4), (24, 1), (24, 3), (96, 5)] {
                let mut list: Vec<Area> = (0..areas).map(|_| Area::default()).collect();
                for round in 0..300 {
                    let used: u64 = list.iter().map(Area::size).sum();
                    let most = sharable(total, total - used, workers);
                    for worker in 0..workers {
                        let chance = hash_i64(total, (round * 1_000 + worker) as i64);
                        let part = if round % 2 == 0 { 16 } else { chance % 16 + 1 };
                        let bytes = most * part / 16;
                        if bytes > 65_536 {
                            list[(chance >> 8) as usize % areas].allocate(bytes);
                        }
                    }
                }
                let used: u64 = list.iter().map(Area::size).sum();
                assert!(
                    used <= total / 3 * 2 + 2 * MB * areas as u64,
                    "{used} of {total}, {workers} workers"
                );
            }
        }
    }

    #[test]
    fn there_is_nothing_to_take_from_a_third_on() {
        assert_eq!(sharable(900, 600, 1), 0);
        assert_eq!(sharable(900, 0, 1), 0);
        assert_eq!(sharable(0, 0, 0), 0);
        assert_eq!(sharable(1_200, 1_200, 4), 25);
        assert_eq!(sharable(u64::MAX, u64::MAX, 0), u64::MAX / 12);
    }
}
