//! Libraries in C, of which a server loads one as it would load another extension.
use crate::shared;
use pg_skip_tests::server::{install, must};
use std::path::PathBuf;
use std::process::Command;

/// Builds `tests/engine/<name>.c` for the server under test, and returns the path of the library.
pub fn build(name: &str) -> PathBuf {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("engine/{name}.c"));
    let library = shared::server().data().join(format!("{name}.so"));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wno-unused-function", "-o"];
    let headers = install().headers.clone();
    must(Command::new(compiler).args(flags).arg(&library).arg("-I").arg(headers).arg(source));
    install().own(&library);
    library
}
