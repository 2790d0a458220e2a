//! What is on disk, frozen: hashes and probe positions.
//!
//! The expected values were computed by a second implementation (the reference XXH3 library, and the rest written
//! anew from the modules' texts in another language). **A test that fails here means that indexes written by
//! earlier builds would be read wrong**: the change is a new hash scheme or a new format version, not new values.

use skip_filter::*;

const SEED: u64 = 0x0123_4567_89ab_cdef;

#[test]
fn scheme() {
    assert_eq!(HASH_SCHEME, 1);
}

#[test]
fn hashes_of_bytes() {
    let counting: Vec<u8> = (0..1000u32).map(|i| i as u8).collect();
    let expected: [(u64, &[u8], u64); 8] = [
        (0, b"", 0x2d06_8005_38d3_94c2),
        (0, b"a", 0xe6c6_32b6_1e96_4e1f),
        (SEED, b"", 0xcc1c_a35a_1b08_9c5c),
        (SEED, b"a", 0xfcf3_69f9_e754_1d1b),
        (SEED, b"device-17", 0x1921_5a5b_aaf3_df4b),
        (SEED, b"0123456789abcdef", 0x7b2c_06ca_efc6_fc58),
        (SEED, &counting[..200], 0xd870_55ac_2914_95ba),
        (SEED, &counting, 0xcda1_ff2a_3595_8dd2),
    ];
    for (seed, bytes, hash) in expected {
        assert_eq!(hash_bytes(seed, bytes), hash, "{seed:x} {bytes:?}");
        assert_eq!(checksum(bytes, seed), hash, "{seed:x} {bytes:?}");
    }
}

#[test]
fn hashes_of_integers() {
    let expected = [
        (0, 0xc77b_3abb_6f87_acd9, 0x84c4_077b_5ba8_8a78),
        (1, 0x2fbc_5935_64db_792e, 0x62da_9b4e_cf9e_94bc),
        (-1, 0x5111_c7e4_7d78_4413, 0x1c90_f36d_5470_02f0),
        (42, 0xd5a6_f8c8_38df_27c8, 0xbcea_5640_f79d_5702),
        (i64::MIN, 0x828f_2476_789a_0e5f, 0x8cb9_df8b_f77d_f33d),
        (i64::MAX, 0xa233_cf37_6558_df46, 0xf721_ccef_b193_38d5),
    ];
    for (value, unseeded, seeded) in expected {
        assert_eq!((hash_i64(0, value), hash_i64(SEED, value)), (unseeded, seeded), "{value}");
    }
}

#[test]
fn hashes_of_floats() {
    let expected = [
        (0.0, 0xc77b_3abb_6f87_acd9, 0x84c4_077b_5ba8_8a78),
        (-0.0, 0xc77b_3abb_6f87_acd9, 0x84c4_077b_5ba8_8a78),
        (1.5, 0x2561_a488_9ff6_3458, 0x00f2_42e8_ae01_b88e),
        (-1.5, 0xa6ad_ab88_26c4_8a82, 0x77af_5ada_bc02_0f55),
        (f64::INFINITY, 0x359a_fb8a_3a23_9b72, 0xdbde_639a_940f_46e2),
        (f64::NAN, 0x0aa6_1dcf_a381_c167, 0x3b29_5acf_14d8_f6ff),
        (-f64::NAN, 0x0aa6_1dcf_a381_c167, 0x3b29_5acf_14d8_f6ff),
        (5e-324, 0x2fbc_5935_64db_792e, 0x62da_9b4e_cf9e_94bc),
    ];
    for (value, unseeded, seeded) in expected {
        assert_eq!((hash_f64(0, value), hash_f64(SEED, value)), (unseeded, seeded), "{value}");
    }
}

#[test]
fn probe_positions() {
    let expected: [(u64, u32, &[u32]); 5] = [
        (0, 64, &[0, 39, 38, 6, 56, 10, 48, 12]),
        (1, 64, &[52, 37, 45, 40, 45, 23, 62, 25]),
        (u64::MAX, 24_000, &[3_139, 15_339, 6_773, 19_565, 12_038, 14_889, 1_144]),
        (
            SEED,
            48_000,
            &[40760, 45851, 16866, 28792, 6767, 32459, 45941, 43286, 24789, 11024, 31284, 12490, 28517],
        ),
        (1 << 63, u32::MAX, &[1_866_561_482, 2_720_758_066, 954_968_764, 2_322_272_421]),
    ];
    for (hash, filter_bits, positions) in expected {
        assert_eq!(
            probes(hash, filter_bits, positions.len() as u8).collect::<Vec<_>>(),
            positions,
            "{hash:x}"
        );
    }
}
