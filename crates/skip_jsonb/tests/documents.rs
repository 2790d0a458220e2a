//! Documents in PostgreSQL's binary form: the keys that they have, what searches ask for, and bytes that are none.
use skip_jsonb::container::{Names, NotJsonb, Scalar, each_scalar};
use skip_jsonb::keys::KeyMaker;
use skip_jsonb::number::Number;
use skip_jsonb::path::{self, Step};

/// A document to be encoded.
#[derive(Clone)]
enum Json {
    Null,
    Bool(bool),
    Integer(u16),
    String(&'static str),
    Array(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}
use Json::{Array, Bool, Integer, Null, Object, String};

/// How often an entry has the end of its data instead of its length (JB_OFFSET_STRIDE).
const STRIDE: usize = 32;

/// The bytes of a container, as utils/jsonb.h describes them.
fn container(json: &Json) -> Vec<u8> {
    let (header, parts): (u32, Vec<Json>) = match json {
        Array(parts) => (0x4000_0000 | parts.len() as u32, parts.clone()),
        Object(pairs) => {
            let names = pairs.iter().map(|(name, _)| String(name));
            let values = pairs.iter().map(|(_, value)| value.clone());
            (0x2000_0000 | pairs.len() as u32, names.chain(values).collect())
        }
        scalar => (0x5000_0001, vec![scalar.clone()]),
    };
    let (mut entries, mut data) = (Vec::new(), Vec::new());
    for (i, part) in parts.iter().enumerate() {
        let before = data.len();
        let aligned = |data: &mut Vec<u8>| data.resize(data.len().next_multiple_of(4), 0);
        let kind = match part {
            String(string) => {
                data.extend(string.as_bytes());
                0
            }
            Integer(number) => {
                aligned(&mut data);
                let numeric = [0x8000u16, *number];
                data.extend(((4 + 4u32) << 2).to_ne_bytes());
                data.extend(numeric.iter().flat_map(|word| word.to_ne_bytes()));
                0x1000_0000
            }
            Bool(false) => 0x2000_0000,
            Bool(true) => 0x3000_0000,
            Null => 0x4000_0000,
            inner => {
                aligned(&mut data);
                data.extend(container(inner));
                0x5000_0000
            }
        };
        let entry =
            if i % STRIDE == 0 { 0x8000_0000 | data.len() as u32 } else { (data.len() - before) as u32 };
        entries.push(kind | entry);
    }
    let words = std::iter::once(header).chain(entries);
    words.flat_map(u32::to_ne_bytes).chain(data).collect()
}

fn sample() -> Json {
    Object(vec![
        ("a", Integer(5)),
        ("bc", Array(vec![String("x"), Array(vec![Bool(true)]), Object(vec![("d", Null)])])),
        ("e", Object(vec![("f", String("7")), ("g", Object(vec![]))])),
    ])
}

/// The paths of a document's names, and its scalars with theirs.
fn parts_of(document: &[u8], names: &mut Names) -> (Vec<u64>, Vec<(u64, std::string::String)>) {
    let mut found = Vec::new();
    names.read(document, path::ROOT).unwrap();
    each_scalar(document, names, |path, scalar| {
        found.push((
            path,
            match scalar {
                Scalar::Number(bytes) => format!("{:?}", Number::of_numeric(bytes).unwrap()),
                scalar => format!("{scalar:?}"),
            },
        ));
    })
    .unwrap();
    found.sort();
    (names.paths().to_vec(), found)
}

#[test]
fn names_and_scalars() {
    let at = |names: &[&str]| names.iter().fold(path::ROOT, |path, name| path::child(path, name.as_bytes()));
    let number = format!("{:?}", Number::of_text(b"5").unwrap());
    let mut expected = vec![
        (at(&["a"]), number),
        (at(&["bc"]), format!("{:?}", Scalar::String(b"x"))),
        (at(&["bc"]), "Bool(true)".into()),
        (at(&["bc", "d"]), "Null".into()),
        (at(&["e", "f"]), format!("{:?}", Scalar::String(b"7"))),
    ];
    expected.sort();
    let names = vec![at(&["a"]), at(&["bc"]), at(&["e"])];
    assert_eq!(parts_of(&container(&sample()), &mut Names::default()), (names, expected));
}

#[test]
fn names_of_the_last_document() {
    let object = |names: &[&'static str], value: &Json| {
        Object(names.iter().map(|&name| (name, value.clone())).collect())
    };
    let values = [Integer(1), String("ab"), Null, Array(vec![Integer(2)]), Object(vec![("a", Bool(true))])];
    let mut documents = vec![Null, String("a"), Array(vec![String("ab"), object(&["a"], &Null)])];
    // Keys with the same bytes that end elsewhere, more and fewer of them, and longer ones.
    for names in [&[][..], &["ab", "c"], &["a", "bc"], &["ab"], &["abc"], &["ab", "c", "d"]] {
        documents.extend(values.iter().map(|value| object(names, value)));
    }
    let mut known = Names::default();
    for document in documents.iter().flat_map(|one| documents.iter().flat_map(move |other| [one, other])) {
        let bytes = container(document);
        assert_eq!(parts_of(&bytes, &mut known), parts_of(&bytes, &mut Names::default()));
    }
    let document = container(&object(&["ab", "c"], &Null));
    assert_eq!(known.read(&document, path::ROOT), Ok(true));
    assert_eq!(known.read(&container(&object(&["ab", "c"], &String("x"))), path::ROOT), Ok(false));
    assert_eq!(known.read(&document, 7), Ok(true), "another root");
    assert_eq!(known.read(&document[..document.len() - 1], 7), Err(NotJsonb), "its last name is cut off");
    assert_eq!(known.read(&document, 7), Ok(true), "after damage");
}

fn keys_of(json: &Json) -> Vec<u64> {
    let mut keys = Vec::new();
    KeyMaker::new(1).of_document(&container(json), |key| keys.push(key)).unwrap();
    keys
}

#[test]
fn searches_find_documents() {
    let document = keys_of(&sample());
    let path = |names: &[&str]| {
        let steps: Vec<Step> = names.iter().map(|name| Step::Key(name.as_bytes().to_vec())).collect();
        path::paths(&steps).unwrap()[0]
    };
    let finds = |keys: &[u64]| keys.iter().any(|key| document.contains(key));
    let mut keys = KeyMaker::new(1);
    let inner =
        Object(vec![("e", Object(vec![("f", String("7"))])), ("bc", Array(vec![Array(vec![Bool(true)])]))]);
    assert!(
        keys.of_scalars(&container(&inner), path::ROOT).unwrap().iter().all(|key| document.contains(key))
    );
    let other = Object(vec![("e", Object(vec![("f", Integer(7))]))]);
    // A string that is a number is found as this number, too.
    assert!(
        keys.of_scalars(&container(&other), path::ROOT).unwrap().iter().all(|key| document.contains(key))
    );
    assert!(
        !keys
            .of_scalars(&container(&String("x")), path::ROOT)
            .unwrap()
            .iter()
            .any(|key| document.contains(key))
    );
    assert!(finds(&keys.of_name(b"bc")) && !finds(&keys.of_name(b"f")) && !finds(&keys.of_name(b"x")));
    for (names, text, is_found) in [
        (&["a"][..], "5", true),
        (&["a"], "5.00", true), // the server tells them apart
        (&["a"], "6", false),
        (&["bc"], "true", true),
        (&["bc"], "false", false),
        (&["e", "f"], "7", true),
        (&["f"], "7", false),
    ] {
        assert_eq!(finds(&keys.of_text(path(names), text.as_bytes()).unwrap()), is_found, "{names:?} {text}");
    }
    for text in ["{}", "[1]", "NaN", &"1".repeat(200)] {
        assert_eq!(keys.of_text(path(&["a"]), text.as_bytes()), None, "{text}");
    }
    let number = |text: &str| Number::of_text(text.as_bytes()).unwrap();
    assert!(finds(&keys.of_number(path(&["e", "f"]), &number("7.0"))));
    assert!(!finds(&keys.of_number(path(&["e", "f"]), &number("8"))));
    let odd = keys_of(&Object(vec![("n", String("0x8"))]));
    assert!(keys.of_number(path(&["n"]), &number("8")).iter().any(|key| odd.contains(key)));
}

#[test]
fn steps_that_may_be_numbers() {
    let either = |text: &str| Step::Either(text.as_bytes().to_vec());
    assert_eq!(path::paths(&[either("a"), Step::Element]).unwrap(), [path::child(path::ROOT, b"a")]);
    assert_eq!(path::paths(&[either(" 1")]).unwrap(), [path::ROOT, path::child(path::ROOT, b" 1")]);
    assert_eq!(path::paths(&[either("1"), either("2"), either("3")]).unwrap().len(), 8);
    assert_eq!(path::paths(&[either("1"), either("2"), either("3"), either("4")]), None);
}

#[test]
fn bytes_that_are_no_document() {
    let bytes = container(&sample());
    let keys_by = |maker: &mut KeyMaker, bytes: &[u8]| {
        let mut keys = Vec::new();
        let result = maker.of_document(bytes, |key| keys.push(key));
        (result, keys)
    };
    // A maker that knows the names of the document without damage finds the same as one that knows none.
    let mut knowing = KeyMaker::new(1);
    let mut check = |damaged: &[u8]| {
        assert_eq!(keys_by(&mut knowing, damaged), keys_by(&mut KeyMaker::new(1), damaged));
        assert_eq!(keys_by(&mut knowing, &bytes), keys_by(&mut KeyMaker::new(1), &bytes));
    };
    // Some prefixes lack only data that nothing refers to.
    (0..bytes.len()).for_each(|end| check(&bytes[..end]));
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            check(&damaged);
        }
    }
    assert_eq!(KeyMaker::new(1).of_document(&[], |_| ()), Err(NotJsonb));
    assert_eq!(KeyMaker::new(1).of_document(&[0; 8], |_| ()), Err(NotJsonb));
    assert_eq!(KeyMaker::new(1).of_document(&[0xff; 64], |_| ()), Err(NotJsonb));
}

#[test]
fn golden() {
    // The keys are on disk: they never change.
    let mut keys = keys_of(&sample());
    keys.sort_unstable();
    assert_eq!(keys, GOLDEN);
}
const GOLDEN: [u64; 9] = [
    2463081913051412673,
    4514119993494041777,
    5300408528785338158,
    7073795675141836551,
    7932385492291991080,
    10946794870391698909,
    10991578606052531378,
    11314103445847546596,
    18019027721507701783,
];

#[test]
fn many_parts() {
    let names: Vec<&'static str> = (0..100).map(|i| &*format!("name{i}").leak()).collect();
    let document = Object(names.iter().map(|&name| (name, String(name))).collect());
    let parts = parts_of(&container(&document), &mut Names::default());
    assert_eq!((parts.0.len(), parts.1.len()), (100, 100));
    // Thousands of arrays, one in another.
    let mut deep = container(&Array(vec![Integer(1)]));
    while deep.len() < 60_000 {
        let entry = 0xd000_0000 | deep.len() as u32;
        deep = [0x4000_0001u32, entry].iter().flat_map(|word| word.to_ne_bytes()).chain(deep).collect();
    }
    let mut count = 0;
    assert_eq!(each_scalar(&deep, &Names::default(), |_, _| count += 1), Ok(()));
    assert_eq!(count, 1);
}
