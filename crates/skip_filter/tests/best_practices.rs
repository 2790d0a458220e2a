//! `calculation_best_practices` against the values ClickHouse gives.

use skip_filter::{Sizing, calculation_best_practices, theoretical_rate};

/// Lines of: rate, bits per row, hashes.
const VECTORS: &str = include_str!("vectors/clickhouse_best_practices.tsv");

#[test]
fn every_vector_is_met() {
    let mut checked = 0;
    for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let rate: f64 = fields[0].parse().unwrap();
        let expected: (u32, u32) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
        assert_eq!(calculation_best_practices(rate), expected, "{line}");
        if (1.09e-4..0.221).contains(&rate) {
            let sizing = Sizing::for_rate(rate).unwrap();
            assert_eq!((sizing.bits_per_row, u32::from(sizing.num_probes)), expected, "{line}");
        }
        checked += 1;
    }
    assert_eq!(checked, 368);
}

#[test]
fn edges_of_the_odd_interval_and_the_floor() {
    let at = calculation_best_practices;
    assert_eq!(at(0.237), (3, 2));
    assert_eq!(at(0.237f64.next_down()), (19, 13));
    assert_eq!(at(0.221), (19, 13));
    assert_eq!(at(0.221f64.next_down()), (4, 2));
    assert_eq!(at(0.283), (2, 2));
    assert_eq!(at(0.283f64.next_down()), (3, 2));
    assert_eq!(at(1.09e-4), (19, 13));
    assert_eq!(at(1.08e-4), (19, 13));
    assert_eq!(at(0.0), (19, 13));
    assert_eq!(at(f64::NAN), (19, 13));
}

/// Above, where the original gives (2, 2) for whatever rate, or (19, 13): the fewest bits and probes that do.
#[test]
fn high_rates_are_kept_too() {
    for (rate, expected) in [
        (0.221, (4, 2)),
        (0.23, (4, 2)),
        (0.24, (3, 2)),
        (0.3, (3, 1)),
        (0.39, (3, 1)),
        (0.4, (2, 1)),
        (0.63, (2, 1)),
        (0.64, (1, 1)),
        (0.99, (1, 1)),
    ] {
        let sizing = Sizing::for_rate(rate).unwrap();
        assert_eq!((sizing.bits_per_row, sizing.num_probes), expected, "{rate}");
    }
    for thousandths in 1..1_000 {
        let rate = f64::from(thousandths) / 1_000.0;
        let sizing = Sizing::for_rate(rate).unwrap();
        let given = theoretical_rate(sizing.bits_per_row.into(), sizing.num_probes);
        assert!(given <= rate * 1.005, "{rate}: {sizing:?} gives {given}"); // the table has three digits
    }
}

/// The values users meet most.
#[test]
fn common_rates() {
    for (rate, expected) in
        [(0.1, (5, 3)), (0.05, (7, 3)), (0.025, (8, 4)), (0.01, (10, 5)), (0.005, (12, 5)), (0.001, (15, 7))]
    {
        assert_eq!(calculation_best_practices(rate), expected, "{rate}");
    }
}
