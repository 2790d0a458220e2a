//! Order keys ascend as the values do.

use proptest::prelude::*;
use skip_bounds::OrderKind;
use std::cmp::Ordering;

fn key(kind: OrderKind, bytes: &[u8]) -> u64 {
    kind.key(bytes).expect("a sound value")
}

/// The keys of two values stand as the values do; if the kind is exact, they differ where these do.
fn check(kind: OrderKind, one: &[u8], other: &[u8], order: Ordering) {
    let (a, b) = (key(kind, one), key(kind, other));
    let found = a.cmp(&b);
    assert!(
        found == order || found == Ordering::Equal && order != Ordering::Equal,
        "{kind:?} {one:?} {other:?}"
    );
    if kind.is_exact() {
        assert_eq!(found, order, "{kind:?} {one:?} {other:?}");
    }
}

/// A numeric as the server stores it: sign, and decimal digits in front of and behind the point. In the long form, or
/// the short one where that is possible.
fn numeric(is_negative: bool, whole: &[u8], fraction: &[u8], is_short: bool) -> Vec<u8> {
    let mut decimals = vec![0; (4 - whole.len() % 4) % 4];
    decimals.extend_from_slice(whole);
    let mut weight = (decimals.len() / 4) as i32 - 1;
    decimals.extend_from_slice(fraction);
    decimals.resize(decimals.len().next_multiple_of(4), 0);
    let mut digits: Vec<u16> =
        decimals.chunks(4).map(|four| four.iter().fold(0, |all, &d| all * 10 + u16::from(d))).collect();
    while digits.first() == Some(&0) {
        digits.remove(0);
        weight -= 1;
    }
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let weight = if digits.is_empty() { 0 } else { weight };
    let is_negative = is_negative && !digits.is_empty();
    let mut bytes = Vec::new();
    if is_short && (-64..64).contains(&weight) {
        let sign = if is_negative { 0x2000 } else { 0 };
        let weight_bits = (weight as u16 & 0x3F) | if weight < 0 { 0x40 } else { 0 };
        bytes.extend((0x8000u16 | sign | weight_bits | 3 << 7).to_le_bytes());
    } else {
        bytes.extend((if is_negative { 0x4000u16 } else { 0 } | 3).to_le_bytes());
        bytes.extend((weight as i16).to_le_bytes());
    }
    digits.iter().for_each(|digit| bytes.extend(digit.to_le_bytes()));
    bytes
}

/// Compares two decimal numbers digit by digit.
fn compare_decimals(one: &(bool, Vec<u8>, Vec<u8>), other: &(bool, Vec<u8>, Vec<u8>)) -> Ordering {
    let whole = one.1.len().max(other.1.len());
    let fraction = one.2.len().max(other.2.len());
    let digits = |(is_negative, w, f): &(bool, Vec<u8>, Vec<u8>)| {
        let mut all = vec![0i8; whole - w.len()];
        all.extend(w.iter().map(|&d| d as i8));
        all.extend(f.iter().map(|&d| d as i8));
        all.resize(whole + fraction, 0);
        let is_zero = all.iter().all(|&d| d == 0);
        if *is_negative && !is_zero {
            all.iter_mut().for_each(|d| *d = -*d)
        }
        all
    };
    digits(one).cmp(&digits(other))
}

fn decimal() -> impl Strategy<Value = (bool, Vec<u8>, Vec<u8>)> {
    let some =
        |most| prop::collection::vec(prop_oneof![3 => 0..10u8, 1 => Just(0u8), 1 => Just(9u8)], 0..most);
    (any::<bool>(), some(30), some(30))
}

fn network() -> impl Strategy<Value = (u8, u8, Vec<u8>)> {
    let bytes =
        |count| prop::collection::vec(prop_oneof![Just(0u8), Just(10), Just(255), any::<u8>()], count);
    prop_oneof![
        (0..=32u8, bytes(4)).prop_map(|(bits, address)| (2, bits, address)),
        (0..=128u8, bytes(16)).prop_map(|(bits, address)| (3, bits, address)),
    ]
}

/// The server's network_cmp: the common bits, then the number of bits, then all bits.
fn compare_networks(one: &(u8, u8, Vec<u8>), other: &(u8, u8, Vec<u8>)) -> Ordering {
    let bits = |address: &[u8], count: u8| -> Vec<bool> {
        (0..usize::from(count)).map(|bit| address[bit / 8] >> (7 - bit % 8) & 1 != 0).collect()
    };
    let common = one.1.min(other.1);
    one.0
        .cmp(&other.0)
        .then_with(|| bits(&one.2, common).cmp(&bits(&other.2, common)))
        .then_with(|| one.1.cmp(&other.1))
        .then_with(|| one.2.cmp(&other.2))
}

fn network_bytes((family, bits, address): &(u8, u8, Vec<u8>)) -> Vec<u8> {
    [&[*family, *bits], address.as_slice()].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn integers(a: i64, b: i64, c: i16, d: i32) {
        check(OrderKind::Integer, &a.to_le_bytes(), &b.to_le_bytes(), a.cmp(&b));
        check(OrderKind::Integer, &c.to_le_bytes(), &d.to_le_bytes(), i32::from(c).cmp(&d));
        check(OrderKind::Integer, &d.to_le_bytes(), &a.to_le_bytes(), i64::from(d).cmp(&a));
        check(OrderKind::Lsn, &a.to_le_bytes(), &b.to_le_bytes(), (a as u64).cmp(&(b as u64)));
        check(OrderKind::Unsigned, &d.to_le_bytes(), &(b as u32).to_le_bytes(), (d as u32).cmp(&(b as u32)));
    }

    #[test]
    fn floats(a in any::<f64>(), b in any::<f64>(), c in any::<f32>()) {
        // The server's order: NaN is equal to itself and greater than all else.
        let order = |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
            (true, true) => Ordering::Equal,
            (is_nan, other) if is_nan != other => is_nan.cmp(&other),
            _ => a.partial_cmp(&b).unwrap(),
        };
        check(OrderKind::Float, &a.to_le_bytes(), &b.to_le_bytes(), order(a, b));
        check(OrderKind::Float, &c.to_le_bytes(), &b.to_le_bytes(), order(c.into(), b));
        check(OrderKind::Float, &c.to_le_bytes(), &f64::from(c).to_le_bytes(), Ordering::Equal);
    }

    #[test]
    fn strings(a in prop::collection::vec(0..3u8, 0..12), b in prop::collection::vec(0..3u8, 0..12)) {
        check(OrderKind::Bytes, &a, &b, a.cmp(&b));
        check(OrderKind::Text, &a, &b, a.cmp(&b));
        let blanked = |s: &[u8]| {
            let mut s: Vec<u8> = s.iter().map(|b| [b' ', 1, b'a'][usize::from(*b)]).collect();
            s.push(b' ');
            s
        };
        let trimmed = |s: &[u8]| {
            let end = s.iter().rposition(|&b| b != b' ').map_or(0, |last| last + 1);
            s[..end].to_vec()
        };
        let (a, b) = (blanked(&a), blanked(&b));
        check(OrderKind::Blanked, &a, &b, trimmed(&a).cmp(&trimmed(&b)));
    }

    #[test]
    fn numerics(a in decimal(), b in decimal(), short: bool) {
        let bytes = |n: &(bool, Vec<u8>, Vec<u8>), short| numeric(n.0, &n.1, &n.2, short);
        check(OrderKind::Numeric, &bytes(&a, short), &bytes(&b, !short), compare_decimals(&a, &b));
        prop_assert_eq!(key(OrderKind::Numeric, &bytes(&a, true)), key(OrderKind::Numeric, &bytes(&a, false)));
        for (special, order) in [(0xC000u16, Ordering::Less), (0xD000, Ordering::Less), (0xF000, Ordering::Greater)] {
            let found = key(OrderKind::Numeric, &bytes(&a, short)).cmp(&key(OrderKind::Numeric, &special.to_le_bytes()));
            prop_assert_eq!(found, order);
        }
    }

    #[test]
    fn close_numerics_differ(a in 1..99_999_999_999_998u64) {
        // Fourteen digits tell neighbours apart.
        let digits = |n: u64| n.to_string().bytes().map(|b| b - b'0').collect::<Vec<u8>>();
        let a = a * 100;
        let (one, other) = (numeric(false, &digits(a), &[], true), numeric(false, &digits(a + 200), &[], true));
        prop_assert!(key(OrderKind::Numeric, &one) < key(OrderKind::Numeric, &other));
    }

    #[test]
    fn intervals(a: (i64, i32, i32), b: (i64, i32, i32), c in -100..100i32) {
        let bytes = |(time, days, months): (i64, i32, i32)| {
            [&time.to_le_bytes()[..], &days.to_le_bytes(), &months.to_le_bytes()].concat()
        };
        let span = |(time, days, months): (i64, i32, i32)| {
            i128::from(time) + (i128::from(months) * 30 + i128::from(days)) * 86_400_000_000
        };
        let near = (a.0, a.1, a.2.wrapping_add(c));
        for (one, other) in [(a, b), (a, near), ((c.into(), c, 0), (0, 0, c / 30))] {
            check(OrderKind::Interval, &bytes(one), &bytes(other), span(one).cmp(&span(other)));
        }
    }

    #[test]
    fn times_with_zones(a in 0..86_400_000_000i64, b in 0..86_400_000_000i64, c in -57_599..57_600i32, d in -57_599..57_600i32) {
        let bytes = |time: i64, zone: i32| [&time.to_le_bytes()[..], &zone.to_le_bytes()].concat();
        let utc = |time: i64, zone: i32| (time + i64::from(zone) * 1_000_000, zone);
        check(OrderKind::TimeTz, &bytes(a, c), &bytes(b, d), utc(a, c).cmp(&utc(b, d)));
    }

    #[test]
    fn networks(a in network(), b in network()) {
        check(OrderKind::Network, &network_bytes(&a), &network_bytes(&b), compare_networks(&a, &b));
    }

    #[test]
    fn damage_is_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        for kind in KINDS {
            let _ = kind.key(&bytes);
        }
    }
}

const KINDS: [OrderKind; 22] = [
    OrderKind::Integer,
    OrderKind::Float,
    OrderKind::Numeric,
    OrderKind::Date,
    OrderKind::Time,
    OrderKind::TimeTz,
    OrderKind::Timestamp,
    OrderKind::TimestampTz,
    OrderKind::Interval,
    OrderKind::Unsigned,
    OrderKind::TransactionId,
    OrderKind::Lsn,
    OrderKind::Byte,
    OrderKind::Money,
    OrderKind::Uuid,
    OrderKind::MacAddress,
    OrderKind::MacAddress8,
    OrderKind::Bytes,
    OrderKind::Text,
    OrderKind::Blanked,
    OrderKind::Name,
    OrderKind::Network,
];

#[test]
fn extremes_of_floats() {
    let ascending =
        [f64::NEG_INFINITY, f64::MIN, -1.0, -f64::MIN_POSITIVE, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY];
    let keys: Vec<u64> = ascending.iter().map(|n| key(OrderKind::Float, &n.to_le_bytes())).collect();
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    assert_eq!(key(OrderKind::Float, &(-0.0f64).to_le_bytes()), key(OrderKind::Float, &0.0f64.to_le_bytes()));
    assert_eq!(key(OrderKind::Float, &f64::NAN.to_le_bytes()), u64::MAX);
    assert_eq!(key(OrderKind::Float, &(-f64::NAN).to_le_bytes()), u64::MAX);
}

#[test]
fn numerics_of_any_weight_stand_between_the_infinities() {
    for weight in [i16::MIN, -1, 0, i16::MAX] {
        for sign in [0u16, 0x4000] {
            let bytes = [&sign.to_le_bytes()[..], &weight.to_le_bytes(), &9999u16.to_le_bytes()].concat();
            let found = key(OrderKind::Numeric, &bytes);
            assert!(found <= u64::MAX - 2, "{weight}");
        }
    }
}

#[test]
fn wrong_lengths_are_damage() {
    assert_eq!(OrderKind::Integer.key(&[1, 2, 3]), None);
    assert_eq!(OrderKind::Byte.key(&[1, 2]), None);
    assert_eq!(OrderKind::Uuid.key(&[0; 15]), None);
    assert_eq!(OrderKind::Network.key(&[2, 33, 0, 0, 0, 0]), None);
    assert_eq!(OrderKind::Numeric.key(&[1]), None);
}
