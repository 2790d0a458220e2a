//! How a test comes into the run: `on_shared!(name);` or `alone!(name);` stands above the function of that name. There
//! is no list of tests to keep. A function that is forgotten is dead code, which does not compile, and a file that no
//! `mod` names fails a test. A test is called after its file: `crash::minimal_wal` is in `crash.rs`.
use crate::shared::{self, Database};
use libtest_mimic::{Completion, Trial};
use pg_skip_tests::server;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A test, as the macros note it.
pub struct Test {
    pub module: &'static str,
    pub function: &'static str,
    pub body: Body,
}

pub enum Body {
    /// On the server that most tests share, in a database of its own.
    OnShared(fn(&Database) -> Completion),
    /// With servers of its own, or none.
    Alone(fn() -> Completion),
}

inventory::collect!(Test);

/// What a test returns: nothing, or that it could not test anything here, and why.
pub trait Ended {
    fn ended(self) -> Completion;
}

impl Ended for () {
    fn ended(self) -> Completion {
        Completion::Completed
    }
}

impl Ended for Completion {
    fn ended(self) -> Completion {
        self
    }
}

/// Registers a test on the shared server, a function of `&Database`. With `name = function(arguments)` one function
/// makes several tests.
macro_rules! on_shared {
    ($name:ident) => {
        $crate::registry::on_shared!($name = $name());
    };
    ($name:ident = $function:ident($($argument:expr),*)) => {
        $crate::registry::register!($name, OnShared(|database| {
            $crate::registry::Ended::ended($function(database $(, $argument)*))
        }));
    };
}

/// Registers a test that starts its own servers, or needs none.
macro_rules! alone {
    ($name:ident) => {
        $crate::registry::alone!($name = $name());
    };
    ($name:ident = $function:ident($($argument:expr),*)) => {
        $crate::registry::register!($name, Alone(|| $crate::registry::Ended::ended($function($($argument),*))));
    };
}

macro_rules! register {
    ($name:ident, $kind:ident($test:expr)) => {
        inventory::submit! {
            $crate::registry::Test {
                module: module_path!(),
                function: stringify!($name),
                body: $crate::registry::Body::$kind($test),
            }
        }
    };
}

pub(crate) use {alone, on_shared, register};

impl Test {
    /// The module and the function, without the name of the program.
    fn name(&self) -> String {
        let module = self.module.split_once("::").map_or(self.module, |(_, module)| module);
        format!("{module}::{}", self.function)
    }
}

/// Files, folders and tests that do the same with any layout: they have no index, name its layout, have columns with
/// bounds, or ask for messages and rights.
const OF_ANY_LAYOUT: [&str; 42] = [
    "advise",
    "at_commit",
    "background::servers",
    "bloom",
    "declarations",
    "distinct",
    "distributed",
    "docs",
    "encodings",
    "errors",
    "errors_of_others",
    "failing_expressions",
    "format",
    "functions",
    "guesses",
    "hooks_of_others",
    "hostile_schemas",
    "inside::bounds",
    "inside::bounds_nested",
    "inside::bounds_types",
    "inside::bounds_zones",
    "key_part_races",
    "key_parts",
    "maps",
    "operator_families",
    "ordered",
    "out_of_memory",
    "packaging",
    "parallel_maps",
    "privileges",
    "publication",
    "rebuild",
    "registry",
    "replay::every_prefix_of_a_divided_summary",
    "replay::every_prefix_of_a_queue",
    "replay::every_prefix_of_cutting_off",
    "replay::every_prefix_of_growth_of_bounds",
    "replay::every_prefix_of_maintenance_of_bounds",
    "replay::every_prefix_of_maintenance_of_wide_bounds",
    "replay::every_prefix_with_key_parts",
    "rescan_folds",
    "results",
];

/// Whether a test does the same with any layout.
fn is_of_any_layout(test: &Test) -> bool {
    let name = test.name();
    let is_it = |rest: &str| rest.is_empty() || rest.starts_with("::");
    OF_ANY_LAYOUT.iter().any(|part| name.strip_prefix(part).is_some_and(is_it))
}

/// All tests of a run; if indexes have another layout than by default, those for which that matters. The ones with
/// servers of their own come first, as they are slow; the others then fill what is left of the processors.
pub fn trials() -> Vec<Trial> {
    let is_of_run = |test: &&Test| server::has_default_layout() || !is_of_any_layout(test);
    let mut tests: Vec<&Test> = inventory::iter::<Test>().filter(is_of_run).collect();
    tests.sort_by_key(|test| (matches!(test.body, Body::OnShared(_)), test.name()));
    let trial = |(number, test): (usize, &Test)| match test.body {
        Body::OnShared(body) => shared::on_shared(test.name(), format!("t{number}_{}", test.function), body),
        Body::Alone(body) => shared::alone(test.name(), body),
    };
    tests.into_iter().enumerate().map(trial).collect()
}

alone!(every_file_is_compiled);
/// A file with tests has tests in the run, and no two tests have one name.
fn every_file_is_compiled() {
    let tests: Vec<String> = inventory::iter::<Test>().map(Test::name).collect();
    let names: BTreeSet<&String> = tests.iter().collect();
    assert_eq!(names.len(), tests.len(), "two tests of one name: {tests:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server");
    for file in files(&root) {
        let text = fs::read_to_string(&file).expect("a file of tests");
        let registers = |line: &str| line.starts_with("on_shared!(") || line.starts_with("alone!(");
        let there = text.lines().filter(|line| registers(line)).count();
        let path = file.strip_prefix(&root).expect("a file below").with_extension("");
        let module = path.to_string_lossy().replace('/', "::") + "::";
        let module = module.trim_end_matches("mod::");
        let run = tests
            .iter()
            .filter(|name| name.strip_prefix(module).is_some_and(|function| !function.contains("::")));
        assert_eq!(run.count(), there, "tests of {}", file.display());
    }
}

/// The files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory of tests").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
