//! The server that most tests share, and the watch over all of them.
use crate::registry::alone;
use libtest_mimic::{Completion, Failed, Trial};
use pg_skip_tests::likely::{Unlikely, likely};
use pg_skip_tests::server::{Server, stop_all};
use pg_skip_tests::session::Session;
use pg_skip_tests::values;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A test that runs longer than this hangs.
const LIMIT: Duration = Duration::from_secs(600);

static SHARED: OnceLock<Mutex<Option<&'static Server>>> = OnceLock::new();
static RUNNING: LazyLock<Mutex<HashMap<String, Instant>>> = LazyLock::new(Mutex::default);
/// How long each test took that has ended.
static TOOK: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());
/// The number of tests that [`tell_slowest`] names.
const SLOWEST: usize = 25;

/// A mutex's content; that some test panicked holding it says nothing about the content here.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The shared server, started by whoever asks first.
pub fn server() -> &'static Server {
    let mut server = locked(SHARED.get_or_init(Mutex::default));
    server.get_or_insert_with(|| {
        // Enough workers for all tests at once: some expect that a build, a query or an index gets one.
        let workers = ["max_worker_processes=32", "max_parallel_workers=32", "pg_skip.max_workers=16"];
        let started = Box::leak(Box::new(Server::start(&workers)));
        prepare(started);
        started
    })
}

/// Makes the database `skip_template` with the extension: what a test's own database is copied from.
pub fn prepare(server: &Server) {
    server.connect("postgres").run("CREATE DATABASE skip_template");
    server.connect("skip_template").run("CREATE EXTENSION pg_skip");
}

/// A database of a test's own on the shared server, with the extension.
pub struct Database {
    /// An identifier of the test's own, short enough to make others of it.
    pub name: String,
}

impl Database {
    /// Makes the database.
    #[track_caller]
    pub fn new(name: &str) -> Self {
        let name = name.to_owned();
        server().connect("postgres").run(&format!("CREATE DATABASE {name} TEMPLATE skip_template"));
        Self { name }
    }

    /// One more session in it.
    #[track_caller]
    pub fn session(&self) -> Session {
        server().connect(&self.name)
    }
}

/// A test on the shared server: fails, with the end of the server's log, if that tells of a crash meanwhile. `database`
/// begins with what tells it from others.
pub fn on_shared(name: String, database: String, test: fn(&Database) -> Completion) -> Trial {
    timed(name, move || {
        run_as_claimed(&database.chars().take(40).collect::<String>(), test).map_err(Failed::from)
    })
}

/// Runs a test; and once more, in another database, if only a likely claim did not hold.
fn run_as_claimed(database: &str, test: fn(&Database) -> Completion) -> Result<Completion, String> {
    match in_database(database, test) {
        Err(Failure::Unlikely(said)) => {
            eprintln!("an unlikely outcome, so {database} is run again: {said}");
            in_database(&format!("{database}_again"), test)
                .map_err(|failure| format!("{said}\nin the second run: {}", failure.said()))
        }
        outcome => outcome.map_err(Failure::said),
    }
}

/// Why a test failed.
enum Failure {
    /// A claim that holds for most seeds does not hold; see [`pg_skip_tests::likely`].
    Unlikely(String),
    Other(String),
}

impl Failure {
    fn said(self) -> String {
        let (Self::Unlikely(said) | Self::Other(said)) = self;
        said
    }
}

fn in_database(database: &str, test: fn(&Database) -> Completion) -> Result<Completion, Failure> {
    let server = server();
    let from = server.log_length();
    let outcome = catch_unwind(AssertUnwindSafe(|| test(&Database::new(database))));
    let trouble = server.trouble(from);
    match outcome {
        Ok(completion) if trouble.is_empty() => Ok(completion),
        Ok(_) => Err(Failure::Other(format!("{}\n{}", trouble.join("\n"), server.log_end()))),
        Err(panic) if trouble.is_empty() => Err(match panic.downcast::<Unlikely>() {
            Ok(unlikely) => Failure::Unlikely(unlikely.0),
            Err(panic) => Failure::Other(message(&*panic)),
        }),
        Err(panic) => {
            let trouble = trouble.join("\n");
            Err(Failure::Other(format!("{}\n{trouble}\n{}", message(&*panic), server.log_end())))
        }
    }
}

/// A test that starts its own servers, or needs none.
pub fn alone(name: String, test: fn() -> Completion) -> Trial {
    timed(name, move || catch_unwind(AssertUnwindSafe(test)).map_err(|panic| message(&*panic).into()))
}

/// Lets a panic say where it was, in one line; what it said is the test's message.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        if let Some(place) = panic.location() {
            eprintln!("failure at {place}: {}", message(panic.payload()).lines().next().unwrap_or_default());
        }
    }));
}

/// What a panic said.
pub fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
    text.or_else(|| panic.downcast_ref::<Unlikely>().map(|Unlikely(said)| said.clone())).unwrap_or_default()
}

fn timed(name: String, test: impl FnOnce() -> Result<Completion, Failed> + Send + 'static) -> Trial {
    Trial::ignorable_test(name.clone(), move || {
        locked(&RUNNING).insert(name.clone(), Instant::now());
        let outcome = test();
        if let Some(since) = locked(&RUNNING).remove(&name) {
            locked(&TOOK).push((since.elapsed(), name));
        }
        outcome
    })
}

/// Names the tests that took longest, after a run of many.
pub fn tell_slowest() {
    let mut took = std::mem::take(&mut *locked(&TOOK));
    if took.len() < 100 {
        return;
    }
    took.sort_by(|one, other| other.cmp(one));
    println!("the slowest tests, in seconds:");
    took.iter().take(SLOWEST).for_each(|(time, name)| println!("{:8.1} {name}", time.as_secs_f64()));
}

/// Ends the run, servers and all, when a test hangs.
pub fn watch() {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let running = locked(&RUNNING);
            if let Some((name, _)) = running.iter().find(|(_, since)| since.elapsed() > LIMIT) {
                eprintln!("{name} hangs: it has been running for {LIMIT:?}");
                if let Some(server) = *locked(SHARED.get_or_init(Mutex::default)) {
                    eprintln!("{}", server.log_end());
                }
                stop_all();
                std::process::exit(101);
            }
        }
    });
}

/// Stops the shared server.
pub fn stop() {
    if let Some(server) = locked(SHARED.get_or_init(Mutex::default)).take() {
        // An orderly stop is one more test, but one that has crashed is past it.
        if server.trouble(0).is_empty() {
            server.stop();
        }
    }
}

/// Runs tasks side by side; fails with what the first failing one said.
#[track_caller]
pub fn together(tasks: Vec<Box<dyn FnOnce() + Send + '_>>) {
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = tasks.into_iter().map(|task| scope.spawn(task)).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let failures: Vec<_> =
        outcomes.into_iter().filter_map(Result::err).map(|panic| message(&*panic)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Fails with what a random test said, the seed that makes it the first round of the test `first`, and a file with
/// the statements that led there.
pub fn blame(panic: &(dyn std::any::Any + Send), seed: u64, first: &str, log: &[String]) -> ! {
    let file = std::env::temp_dir().join(format!("pg_skip_failure_{seed}.sql"));
    let _ = std::fs::write(&file, log.join(";\n"));
    panic!(
        "{}\nPG_SKIP_SEED={seed} makes it the first of {first}; the tables' history is in {}",
        message(panic),
        file.display()
    );
}

/// Prepares the types of `values::TYPES` in a session's database.
pub fn prepare_types(session: &mut Session) {
    session.run(values::PREPARE);
}

/// Waits for what must come true within a minute.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what}: not so after a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

alone!(unlikely_outcomes);
/// A test is run again after an unlikely outcome, and fails after two; after a wrong row it fails at once.
fn unlikely_outcomes() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let once: fn(&Database) -> Completion = |_| {
        likely(RUNS.fetch_add(1, Ordering::Relaxed) > 0, || "only once".to_owned());
        Completion::Completed
    };
    assert!(run_as_claimed("unlikely_once", once).is_ok());
    let twice: fn(&Database) -> Completion = |_| {
        RUNS.fetch_add(1, Ordering::Relaxed);
        likely(false, || "in every run".to_owned());
        Completion::Completed
    };
    let said = run_as_claimed("unlikely_twice", twice).err().unwrap_or_default();
    assert!(said.matches("in every run").count() == 2, "{said}");
    let wrong: fn(&Database) -> Completion = |_| {
        assert_eq!(RUNS.fetch_add(1, Ordering::Relaxed), 4, "this run is the only one");
        panic!("a wrong row")
    };
    let said = run_as_claimed("wrong_row", wrong).err().unwrap_or_default();
    assert!(said.starts_with("a wrong row") && RUNS.load(Ordering::Relaxed) == 5, "{said}");
}
