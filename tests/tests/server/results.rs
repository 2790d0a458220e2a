//! The documentation's figures and plots: what README.md and docs/ show is what the scripts in benches/ print from
//! docs/results, and the plots are there.
use crate::registry::{alone, on_shared};
use crate::shared::{Database, server};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Results, a script that prints from them, and the page that has what it prints. Results that the tree does not have
/// are left out.
const SHOWN: [(&str, &str, &str); 6] = [
    ("benchmarks", "report_head.sql", "docs/benchmarks.md"),
    ("benchmarks", "report.sql", "docs/benchmarks.md"),
    ("benchmarks", "readme_head.sql", "README.md"),
    ("benchmarks", "readme.sql", "README.md"),
    ("options", "sweep_report.sql", "docs/options.md"),
    ("busy", "busy_report.sql", "docs/busy-tables.md"),
];

on_shared!(figures_come_from_the_results);
fn figures_come_from_the_results(database: &Database) {
    let mut seen = 0;
    for (number, (results, script, page)) in SHOWN.into_iter().enumerate() {
        let Ok(results) = fs::read_to_string(root().join(format!("docs/results/{results}.json"))) else {
            continue;
        };
        let name = format!("{}_{number}", database.name);
        database.session().run(&format!("CREATE DATABASE {name} TEMPLATE template0"));
        let psql = |file: &str| {
            // The server's user may not be able to read the source tree.
            let copy = server().data().join(format!("{name}-{file}"));
            fs::copy(root().join("benches").join(file), &copy).expect(file);
            let mut psql = server().client("psql");
            psql.args(["-X", "-qAt", "-v", "ON_ERROR_STOP=1", "-f"]).arg(&copy).arg(&name);
            let output = psql.output().expect("psql");
            assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        psql("results.sql");
        server().connect(&name).run(&format!("CALL bench.load($results${results}$results$)"));
        let printed = psql(script);
        let shown = fs::read_to_string(root().join(page)).expect(page);
        let missing =
            printed.lines().find(|line| !shown.lines().any(|other| other.trim_end() == line.trim_end()));
        assert_eq!(missing, None, "{page} does not have what benches/{script} prints from docs/results");
        seen += 1;
    }
    assert!(seen > 0, "no results in docs/results");
}

/// The pictures that a page shows, as files.
fn images(page: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(page).expect("a page");
    let shown = text.split("![").skip(1).filter_map(|rest| rest.split_once("](")?.1.split(')').next());
    shown.map(|link| page.parent().expect("a directory").join(link)).collect()
}

alone!(images_are_there);
fn images_are_there() {
    let docs = root().join("docs");
    let in_folder = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder)
            .map(|found| found.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default()
    };
    let mut pages = in_folder(&docs);
    pages.push(root().join("README.md"));
    pages.retain(|page| page.extension().is_some_and(|end| end == "md"));
    let names = |files: Vec<PathBuf>| -> BTreeSet<String> {
        files.iter().filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned())).collect()
    };
    let shown: Vec<PathBuf> = pages.iter().flat_map(|page| images(page)).collect();
    for image in &shown {
        let text = fs::read_to_string(image).unwrap_or_else(|error| panic!("{}: {error}", image.display()));
        assert!(text.contains("<svg"), "{}", image.display());
    }
    assert_eq!(names(shown), names(in_folder(&docs.join("images"))), "shown, and in docs/images");
}
