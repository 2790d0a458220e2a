//! `Filter`: what was inserted is contained, one by one or at once.

use proptest::prelude::*;
use skip_filter::Filter;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_filter_has_no_false_negatives(
        keys in prop::collection::vec(any::<u64>(), 0..300), filter_bits in 0..3000u32, num_probes in any::<u8>(),
    ) {
        let mut filter = Filter::new(filter_bits, num_probes);
        keys.iter().for_each(|&hash| filter.insert(hash));
        prop_assert!(keys.iter().all(|&hash| filter.contains(hash)));
        prop_assert!(filter.ones() <= u64::from(filter.filter_bits()));
        let mut at_once = Filter::new(filter_bits, num_probes);
        at_once.insert_all(keys.iter().copied());
        prop_assert_eq!(&at_once, &filter);
        let mut both = Filter::new(filter_bits, num_probes);
        both.insert(1);
        prop_assert!(both.union(&filter));
        prop_assert!(keys.iter().all(|&hash| both.contains(hash)) && both.contains(1));
    }
}
