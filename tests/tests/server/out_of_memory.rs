//! Memory that the system refuses: the session ends, and no other one.
use crate::registry::alone;
use crate::shared::prepare;
use libtest_mimic::Completion;
use pg_skip_tests::server::{Server, install, must};
use std::path::Path;

alone!(a_refused_allocation_ends_its_session_alone);
/// CREATE INDEX may use more memory than the process may have. The server must not take its end for a crash.
fn a_refused_allocation_ends_its_session_alone() -> Completion {
    const MARGIN: u64 = 16 << 20;
    const PRLIMIT: &str = "/usr/bin/prlimit";
    if !Path::new(PRLIMIT).exists() {
        return Completion::ignored_with("there is no program prlimit");
    }
    let server = Server::start(&["maintenance_work_mem=1GB", "max_parallel_maintenance_workers=0"]);
    prepare(&server);
    let (mut session, mut other) = (server.connect("skip_template"), server.connect("skip_template"));
    session.run(
        "CREATE TABLE small AS SELECT i AS k FROM generate_series(1, 1000) i; CREATE INDEX ON small USING skip (k);
         CREATE TABLE t AS SELECT i AS k FROM generate_series(1, 6000000) i",
    );
    other.run("BEGIN; INSERT INTO small VALUES (-1)");
    let pid = session.one("SELECT pg_backend_pid()");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the status of the process");
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB"));
    let limit = size.and_then(|size| size.trim().parse::<u64>().ok()).expect("its size") * 1024 + MARGIN;
    must(install().command(PRLIMIT).args(["--pid", &pid, &format!("--as={limit}")]));
    let error = session.error("CREATE INDEX t_skip ON t USING skip (k) WITH (layout = map)");
    assert_eq!((error.severity(), error.code().code()), ("FATAL", "53200"), "{error:?}");
    other.run("COMMIT");
    assert_eq!(other.one("SELECT count(*) FROM small WHERE k = -1"), "1");
    let mut session = server.connect("skip_template");
    assert_eq!(session.one("SELECT count(*) FROM pg_class WHERE relname = 't_skip'"), "0");
    session.run("CREATE INDEX t_skip ON t USING skip (k)");
    server.finish();
    Completion::Completed
}
