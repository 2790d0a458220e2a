//! What single patterns demand.

use super::*;
use crate::Demand::{All, Any, Anything, Key, Never};

/// `a & (^b | c$)`: what must stand in the value, `^` and `$` where it begins or ends with it.
fn show(demand: &Demand<Literal>) -> String {
    let list = |parts: &[Demand<Literal>], sign: &str| {
        let shown = parts.iter().map(|part| match part {
            Any(_) | All(_) => format!("({})", show(part)),
            _ => show(part),
        });
        shown.collect::<Vec<_>>().join(sign)
    };
    match demand {
        Anything => "*".into(),
        Never => "!".into(),
        Key(literal) => {
            let text = String::from_utf8_lossy(&literal.text).replace('\n', "\\n");
            let (start, end) =
                (if literal.at_start { "^" } else { "" }, if literal.at_end { "$" } else { "" });
            format!("{start}{text}{end}")
        }
        All(parts) => list(parts, " & "),
        Any(parts) => list(parts, " | "),
    }
}

fn check(matching: Matching, keys: KeyCase, cases: &[(&str, &str)]) {
    for (pattern, wanted) in cases {
        let found = demand(pattern.as_bytes(), keys, matching, Encoding::Utf8);
        assert_eq!(show(&found), *wanted, "{pattern}");
    }
}

fn exact(cases: &[(&str, &str)]) {
    check(Matching::Exact, KeyCase::AsIs, cases);
}

#[test]
fn sequences_alternatives_and_groups() {
    exact(&[
        ("", "*"),
        ("abc", "abc"),
        ("größe", "größe"),
        ("ab.cd", "ab & cd"),
        ("ab|cd", "ab | cd"),
        ("ab|", "*"),
        ("(ab|cd)ef", "abef | cdef"),
        ("(?:ab)(cd)", "abcd"),
        ("()a", "a"),
        ("a(|b)c", "ac | abc"),
        ("a(b|.)c", "abc | (a & c)"),
        ("x(.*a|b.*)y", "(x & ay) | (xb & y)"),
    ]);
}

#[test]
fn quantifiers() {
    exact(&[
        ("ab*c", "a & c"),
        ("ab*?c", "a & c"),
        ("ab+c", "abc | (ab & bc)"),
        ("ab+?c", "abc | (ab & bc)"),
        ("(ab)?cd", "abcd | cd"),
        ("ab??c", "abc | ac"),
        ("a{3}b", "aaab"),
        ("a{3}?b", "aaab"),
        ("a{2,}b", "aa & b"),
        ("a{2,3}b", "aa & b"),
        ("a{0}b", "b"),
        ("a{0,}b", "b"),
        ("a{0,2}b", "b"),
        ("a{0,1}b", "ab | b"),
        ("a{1}b", "ab"),
        ("(ab){20}c", "abababababababab & c"),
        ("a{256}b", "*"),
        ("a{3,2}b", "*"),
        ("a{,3}b", "a{,3}b"),
        ("a{x", "a{x"),
        ("a{", "a{"),
        ("(a.b){2}c", "a & ba & bc"),
        ("(ab|cd)+x", "abx | cdx | (ab & abx) | (ab & cdx) | (cd & abx) | (cd & cdx)"),
    ]);
    // Errors in PostgreSQL.
    exact(&[
        ("*a", "*"),
        ("a**", "*"),
        ("a+*", "*"),
        ("a|*b", "*"),
        ("(*a)", "*"),
        ("^*a", "*"),
        (r"\y+a", "*"),
    ]);
    exact(&[("a{2", "*"), ("a{2x}", "*"), ("(?=a)*b", "*"), ("a{1}{2}", "*")]);
}

#[test]
fn constraints_match_no_characters() {
    exact(&[
        ("^abc", "^abc"),
        ("abc$", "abc$"),
        ("^abc$", "^abc$"),
        (r"\Aabc\Z", "^abc$"),
        ("^$", "^$"),
        ("^", "*"),
        ("a$|^b", "a$ | ^b"),
        ("(^|x)ab", "^ab | xab"),
        (".*^ab", "^ab"),
        ("a^b", "a & ^b"),
        (r"ab\ycd\Mef\mgh\Yij", "abcdefghij"),
        ("ab(?=xyz)cd", "abcd"),
        ("ab(?!xyz)cd(?<=x(y|z))e(?<!q)f", "abcdef"),
        ("(?n)^abc$", "abc"),
        ("(?m)^abc$", "abc"),
        ("(?w)^abc$", "abc"),
        ("(?p)^abc$", "^abc$"),
        ("(?ns)^abc$", "^abc$"),
        (r"(?n)\Aabc\Z", "^abc$"),
        ("[[:<:]]abc[[:>:]]", "abc"),
    ]);
}

#[test]
fn escapes() {
    exact(&[(r"a\.b\*\\\[", r"a.b*\["), (r"a\x2E", "a.")]);
    exact(&[
        (r"\x41g", "Ag"),
        (r"\x0000000000041g", "Ag"),
        (r"\x100000041g", "*"),
        (r"\x00000041g", "Ag"),
        (r"\u00e9t", "ét"),
        (r"\U0001F600t", "😀t"),
        (r"\u12", "*"),
        (r"\ud800", "*"),
        (r"\xg", "*"),
        (r"a\Bb", r"a\b"),
        (r"a\nb", r"a\nb"),
        (r"\101b", "*"),
        (r"\060b", "0b"),
        (r"\0601", "01"),
        (r"\0777", "?7"),
        (r"ab\dcd\Wef", "ab & cd & ef"),
        (r"(ab)\1cd", "ab & cd"),
        (r"(ab)\12cd", "*"),
        (r"a\qb", "*"),
        (r"ab\", "*"),
        (r"a\cAb", "a\u{1}b"),
        (r"\é", "é"),
    ]);
}

#[test]
fn brackets() {
    exact(&[
        ("a[bc]d", "abd | acd"),
        ("a[b-d]e", "abe | ace | ade"),
        ("a[a-z]b", "a & b"),
        ("a[^b]c", "a & c"),
        ("a[]b]c", "a]c | abc"),
        ("a[^]b]c", "a & c"),
        ("a[b-]c", "abc | a-c"),
        ("a[-b]c", "a-c | abc"),
        ("a[[.hyphen.]]c", "a & c"),
        ("a[[=b=]]c", "a & c"),
        ("a[[:digit:]x]c", "a & c"),
        ("a[[:digit:]]]c", "a & ]c"),
        ("a[[.].]]c", "a & c"),
        ("a[[]c", "a[c"),
        ("a[b[]c", "abc | a[c"),
        (r"a[\]b]c", "a]c | abc"),
        (r"a[\d]c", "a & c"),
        (r"a[\m]c", "*"),
        (r"a[\x41]c", "aAc"),
        ("a[é]c", "a & c"),
        ("a[bb]c", "abc"),
        ("a[b", "*"),
        ("a[[:digit:", "*"),
        ("a[c-b]d", "a & d"),
        ("a[b-c-d]e", "a & e"),
    ]);
}

#[test]
fn prefixes_and_options() {
    exact(&[
        ("***=a.b|c", "a.b|c"),
        ("***:a.bc", "a & bc"),
        ("***:(?q)a.b", "a.b"),
        ("***=", "*"),
        ("***", "*"),
        ("***a", "*"),
        ("***?", "*"),
        ("(?q)a.b(", "a.b("),
        ("(?qx)a b", "a b"),
        ("(?b)ab", "*"),
        ("(?e)ab", "*"),
        ("(?z)ab", "*"),
        ("(?i", "*"),
        ("ab(?i)cd", "*"),
        ("(?x) a b # c d\n e", "abe"),
        ("(?x)a\\ b[ ]c", "a b c"),
        ("(?x)a é", "*"),
        ("(?xt)a b", "a b"),
        ("(?x)a *b", "b"),
        ("a(?#no * )b", "ab"),
        ("a(?#x)*b", "b"),
    ]);
    exact(&[("(?:i)a", "ia")]);
    exact(&[
        ("(?x)xa { 2 , 3 }c", "xaa & c"),
        ("a(?#never closed", "a"),
        ("(?x)a{ 2 }", "aa"),
        ("(?x)( ?:a)", "*"),
    ]);
    exact(&[("ab)", "*"), ("(ab", "*"), ("(?<a)", "*"), ("(?", "*"), ("(?=a", "*")]);
}

#[test]
fn case() {
    check(
        Matching::IgnoreCase,
        KeyCase::Folded,
        &[
            ("MaßeI", "ma & ei"),
            ("[Aa]b", "ab"),
            ("(?c)Maße", "maße"),
            ("x\u{307}*y", "x & y"),
            ("x\u{307}?y", "xy"),
        ],
    );
    check(Matching::IgnoreCase, KeyCase::AsIs, &[("ab-12", "-12"), ("(?c)Ab", "Ab"), ("[12]a", "1 | 2")]);
    check(
        Matching::Exact,
        KeyCase::Folded,
        &[("(?i)Ma", "ma"), ("MAß", "maß"), ("[aA]ß", "aß"), ("***=Ab", "ab")],
    );
    exact(&[("(?i)ab", "*"), ("(?ic)ab", "ab")]);
}

#[test]
fn other_encodings() {
    let bytes = |pattern: &[u8], keys, matching| show(&demand(pattern, keys, matching, Encoding::Bytes));
    // The quantifier may be for both bytes.
    assert_eq!(bytes(b"ab\xA4\xA2*cd", KeyCase::AsIs, Matching::Exact), "ab & cd");
    assert_eq!(bytes(b"ab\\\xA4\xA2*cd", KeyCase::AsIs, Matching::Exact), "*");
    // In an encoding of one byte, the quantifier is for the last of these characters.
    assert_eq!(bytes(b"ab\xA4\xA2{0}cd", KeyCase::AsIs, Matching::Exact), "ab & cd");
    assert_eq!(bytes(b"ab\xA4\xA2{0,0}cd", KeyCase::AsIs, Matching::Exact), "ab & cd");
    assert_eq!(bytes(b"ab\xA2{0}cd", KeyCase::AsIs, Matching::Exact), "abcd");
    assert_eq!(bytes(b"a[\xA4\xA2]cd", KeyCase::AsIs, Matching::Exact), "a & cd");
    assert_eq!(bytes(b"a\\xE9cd", KeyCase::AsIs, Matching::Exact), "*");
    assert_eq!(bytes(b"LIKE", KeyCase::Folded, Matching::IgnoreCase), "l & e");
    assert_eq!(show(&demand(b"ab\xFF", KeyCase::AsIs, Matching::Exact, Encoding::Utf8)), "*");
}

#[test]
fn bounded() {
    let nested = format!("{}a{}", "(".repeat(101), ")".repeat(101));
    let allowed = format!("{}a{}", "(".repeat(99), ")".repeat(99));
    exact(&[(&nested, "*"), (&allowed, "a")]);
    let powers = format!("{}ab{}", "(".repeat(50), "){8}".repeat(50));
    assert!(demand(powers.as_bytes(), KeyCase::AsIs, Matching::Exact, Encoding::Utf8).key_count() < 1000);
    let choices = "(a|b|c|d)".repeat(1000);
    let found = demand(choices.as_bytes(), KeyCase::AsIs, Matching::Exact, Encoding::Utf8);
    assert!(found != Anything && found.key_count() < 10_000);
    let plus = "(a+|b+)+".repeat(1000);
    assert!(demand(plus.as_bytes(), KeyCase::AsIs, Matching::Exact, Encoding::Utf8).key_count() < 10_000);
    // Many different literals: on the way, no more are kept than are asked for, and those of one template.
    let group = |of: usize| (0..129).map(|i| format!("{:02}.", (i + of * 7) % 100)).collect::<String>();
    let groups: String = (0..18).map(|of| format!("(?:{}){{8}}", group(of))).collect();
    let kept = demand(groups.as_bytes(), KeyCase::AsIs, Matching::Exact, Encoding::Utf8).key_count();
    assert!((1024..=2048).contains(&kept), "{kept} literals");
    let long = "ab".repeat(5001);
    exact(&[(&long, "*")]);
    let many = (0..2000).map(|i| format!("w{i}")).collect::<Vec<_>>().join("|");
    exact(&[(&many[..9000], "*")]);
}
