//! PostgreSQL servers that a test starts, kills, restarts and copies, and that are gone when the tests are.
use crate::session::Session;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use postgres::error::SqlState;
use postgres::{Config, NoTls};
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The installation under test, from `PG_SKIP_PG_CONFIG`.
pub struct Install {
    /// Where `postgres` and `initdb` are.
    pub bin: PathBuf,
    /// Where the server's headers are.
    pub headers: PathBuf,
    /// The major version.
    pub version: u32,
    /// Who runs the server: PostgreSQL refuses root, so root hands over to the user `postgres`.
    user: Option<(u32, u32)>,
}

/// The installation under test; an unusable one ends the run.
pub fn install() -> &'static Install {
    static INSTALL: LazyLock<Install> = LazyLock::new(|| {
        Install::find().unwrap_or_else(|problem| {
            eprintln!("{problem}");
            std::process::exit(2)
        })
    });
    &INSTALL
}

impl Install {
    fn find() -> Result<Self, String> {
        let config = std::env::var_os("PG_SKIP_PG_CONFIG").ok_or(
            "the server tests need PG_SKIP_PG_CONFIG: the path of the pg_config of a server that has \
             pg_skip installed",
        )?;
        let ask = |what: &str| {
            let output = Command::new(&config).arg(what).output();
            let output = output.map_err(|error| format!("cannot run {}: {error}", config.display()))?;
            Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let version = ask("--version")?;
        let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
        let major = digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|d| d.parse().ok());
        let user = if geteuid().is_root() {
            let user = User::from_name("postgres").ok().flatten();
            let user = user.ok_or("running as root needs a user \"postgres\" to run the server")?;
            Some((user.uid.as_raw(), user.gid.as_raw()))
        } else {
            None
        };
        let version = major.ok_or(format!("no version in {version:?}"))?;
        let (bin, headers) = (ask("--bindir")?.into(), ask("--includedir-server")?.into());
        Ok(Self { bin, headers, version, user })
    }

    /// A command of this installation (or one given by its whole path), to be run by the server's user.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.current_dir("/").stdin(Stdio::null()).env_remove("PGOPTIONS").env_remove("RUST_BACKTRACE");
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Gives a path to the server's user.
    pub fn own(&self, path: &Path) {
        if let Some((uid, gid)) = self.user {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("chown");
        }
    }
}

/// Runs a command to its end; anything but success is a failure of the test, with what it said.
#[track_caller]
pub fn must(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed\n{}{said}", String::from_utf8_lossy(&output.stdout));
}

/// What must be cleaned up even when the run is interrupted: a postmaster and its directory.
struct Slot {
    child: Mutex<Option<Child>>,
    dir: PathBuf,
}

static LIVE: LazyLock<Mutex<HashMap<u64, Arc<Slot>>>> = LazyLock::new(Mutex::default);

/// Stops every server still running and removes its directory; for the end of the run, however it comes.
pub fn stop_all() {
    let slots: Vec<_> = LIVE.lock().unwrap().drain().collect();
    for (_, slot) in slots {
        slot.clean();
    }
    if let Some(template) = TEMPLATE.get() {
        let _ = fs::remove_dir_all(template);
    }
}

impl Slot {
    fn signal(&self, signal: Signal) {
        if let Some(child) = &*self.child.lock().unwrap() {
            let _ = kill(Pid::from_raw(child.id() as i32), signal);
        }
    }

    /// Waits until the postmaster is gone; false if it is not in time.
    fn wait(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            let mut child = self.child.lock().unwrap();
            if child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some())) {
                *child = None;
                return true;
            }
            drop(child);
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    fn clean(&self) {
        self.signal(Signal::SIGQUIT);
        if !self.wait(Duration::from_secs(10)) {
            self.signal(Signal::SIGKILL);
            self.wait(Duration::from_secs(10));
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

static TEMPLATE: OnceLock<PathBuf> = OnceLock::new();

/// One data directory, made once: copying it is a good deal faster than initdb.
fn template() -> &'static Path {
    TEMPLATE.get_or_init(|| {
        let dir = new_dir();
        let mut initdb = install().command("initdb");
        initdb.args(["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"]);
        if install().version >= 18 {
            initdb.arg("--no-data-checksums"); // the default of 18; damage must reach the extension's own checks
        }
        must(initdb.arg("-D").arg(dir.join("data")));
        dir
    })
}

fn new_dir() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("pg_skip-{}-{number}", std::process::id()));
    fs::create_dir_all(&dir).expect("a directory for the server");
    install().own(&dir);
    dir
}

/// A server of a test's own; stopped and removed when dropped.
pub struct Server {
    slot: Arc<Slot>,
    id: u64,
    settings: Vec<String>,
    /// Its environment, beside what it inherits.
    environment: Vec<(&'static str, &'static str)>,
}

impl Server {
    /// Starts a new server with these settings (`name=value`) over the tests' defaults.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_with(settings, &[])
    }

    /// The same with variables in the server's environment.
    pub fn start_with(settings: &[&str], environment: &[(&'static str, &'static str)]) -> Self {
        let mut server = Self::at(new_dir(), settings);
        server.environment.extend_from_slice(environment);
        must(install().command("/bin/cp").args(["-a"]).arg(template().join("data")).arg(&server.slot.dir));
        server.restart();
        server
    }

    fn at(dir: PathBuf, settings: &[&str]) -> Self {
        static IDS: AtomicU64 = AtomicU64::new(0);
        let slot = Arc::new(Slot { child: Mutex::new(None), dir });
        let id = IDS.fetch_add(1, Ordering::Relaxed);
        LIVE.lock().unwrap().insert(id, slot.clone());
        let settings = settings.iter().map(ToString::to_string).collect();
        Self { slot, id, settings, environment: Vec::new() }
    }

    /// A streaming standby of this server.
    pub fn standby(&self, settings: &[&str]) -> Self {
        let standby = Self::at(new_dir(), settings);
        let mut backup = install().command("pg_basebackup");
        backup.args(["-U", "postgres", "-X", "stream", "-R", "-c", "fast", "--no-sync", "-h"]);
        must(backup.arg(&self.slot.dir).arg("-D").arg(standby.data()));
        standby.restart();
        standby
    }

    /// A server with a copy of this stopped one's data; not started yet.
    pub fn copy(&self, settings: &[&str]) -> Self {
        let copy = Self::at(new_dir(), settings);
        must(install().command("/bin/cp").args(["-a"]).arg(self.data()).arg(&copy.slot.dir));
        copy
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.slot.dir.join("data")
    }

    /// Starts the stopped server and waits until it answers.
    #[track_caller]
    pub fn restart(&self) {
        let log = File::options().create(true).append(true).open(self.log_path()).expect("the server's log");
        let mut command = install().command("postgres");
        command.envs(self.environment.iter().copied());
        command.arg("-D").arg(self.data()).stdout(Stdio::null()).stderr(log);
        // A group of its own: Ctrl-C at the terminal is for the tests, which then stop the server.
        command.process_group(0);
        let socket = format!("unix_socket_directories={}", self.slot.dir.display());
        let defaults = [
            "listen_addresses=",
            "port=5432",
            "fsync=off",
            "jit=off",
            "autovacuum=off",
            "max_connections=60",
            "shared_buffers=128MB",
            "log_min_messages=warning",
            "log_line_prefix=%m [%p] %d ",
            "statement_timeout=120s",
            "restart_after_crash=on",
            &socket,
        ];
        // The layout of all indexes that do not say theirs: the suite runs with each.
        let layout = layout().map(|layout| format!("pg_skip.default_layout={layout}"));
        // How finely maps are divided by key: with 1, those of small tables are too.
        let key_parts = std::env::var("PG_SKIP_KEY_PART_PAGES").ok();
        let key_parts = key_parts.map(|pages| format!("pg_skip.key_part_pages={pages}"));
        let of_environment = layout.as_deref().into_iter().chain(key_parts.as_deref());
        for setting in
            defaults.into_iter().chain(of_environment).chain(self.settings.iter().map(String::as_str))
        {
            command.arg("-c").arg(setting);
        }
        *self.slot.child.lock().unwrap() = Some(command.spawn().expect("starting postgres"));
        self.wait_ready();
    }

    #[track_caller]
    fn wait_ready(&self) {
        let end = Instant::now() + Duration::from_secs(90);
        loop {
            let problem = match self.config("postgres").connect(NoTls) {
                Ok(_) => return,
                Err(error) => error,
            };
            let gone = match &mut *self.slot.child.lock().unwrap() {
                Some(child) => child.try_wait().is_ok_and(|status| status.is_some()),
                None => true,
            };
            let late = Instant::now() > end;
            assert!(!gone && !late, "the server does not start: {problem}\n{}", self.log_end());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn config(&self, database: &str) -> Config {
        let mut config = Config::new();
        config.host_path(&self.slot.dir).port(5432).user("postgres").dbname(database);
        config
    }

    /// A session in a database.
    #[track_caller]
    pub fn connect(&self, database: &str) -> Session {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            match self.try_connect(database) {
                Ok(session) => return session,
                // Some other test has crashed the server, which is coming up again.
                Err(error) if recovering(&error) && Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error) => panic!("{}\n{}", crate::session::describe(&error), self.log_end()),
            }
        }
    }

    /// A session in a database, and what the server will say in it beside answers: notices and warnings.
    pub fn connect_hearing(&self, database: &str) -> (Session, Arc<Mutex<Vec<String>>>) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let mut config = self.config(database);
        config.notice_callback(move |notice| {
            ear.lock().unwrap().push(format!("{}: {}", notice.severity(), notice.message()));
        });
        (Session(config.connect(NoTls).expect("a session")), heard)
    }

    /// A session in a database, or why there is none.
    pub fn try_connect(&self, database: &str) -> Result<Session, postgres::Error> {
        self.config(database).connect(NoTls).map(Session)
    }

    /// Stops the server in an orderly way.
    #[track_caller]
    pub fn stop(&self) {
        self.slot.signal(Signal::SIGINT);
        assert!(self.slot.wait(Duration::from_secs(90)), "the server does not stop\n{}", self.log_end());
    }

    /// Stops the server at once, as a power cut that spares the operating system's cache: recovery must follow.
    #[track_caller]
    pub fn stop_immediately(&self) {
        self.slot.signal(Signal::SIGQUIT);
        assert!(self.slot.wait(Duration::from_secs(60)), "the server does not stop\n{}", self.log_end());
    }

    /// Kills the postmaster and all its children with SIGKILL, so that none of them sees another one die. The leader of
    /// a parallel build that sees the postmaster gone cannot abort its transaction (WaitForParallelWorkersToExit in
    /// parallel.c), and fails an assertion at its exit (pgstat_report_stat).
    #[track_caller]
    pub fn kill(&self) {
        let postmaster = self.slot.child.lock().unwrap().as_ref().map(Child::id).expect("a running server");
        // A stopped postmaster makes no child that this does not know of.
        self.slot.signal(Signal::SIGSTOP);
        let children = children_of(postmaster);
        for &pid in &children {
            let _ = kill(Pid::from_raw(pid), Signal::SIGSTOP);
        }
        self.slot.signal(Signal::SIGKILL);
        for &pid in &children {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        assert!(self.slot.wait(Duration::from_secs(60)), "the server does not die");
        // The children's shared memory must be free before the next start; they are not ours to wait for.
        let end = Instant::now() + Duration::from_secs(10);
        while children.iter().any(|&pid| is_running(pid)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(100));
    }

    /// Stops the server and fails if it ever crashed, or replayed a page differently than it was written.
    #[track_caller]
    pub fn finish(self) {
        self.stop();
        let trouble = self.trouble(0);
        assert!(trouble.is_empty(), "the server's log tells of:\n{}\n{}", trouble.join("\n"), self.log_end());
    }

    /// Runs a client program against this server, as its user.
    pub fn client(&self, program: &str) -> Command {
        let mut command = install().command(program);
        command.env("PGHOST", &self.slot.dir).env("PGUSER", "postgres").env("PGPORT", "5432");
        command
    }

    fn log_path(&self) -> PathBuf {
        self.slot.dir.join("log")
    }

    /// How long the log is, to ask for `trouble` since then.
    pub fn log_length(&self) -> usize {
        fs::metadata(self.log_path()).map_or(0, |data| data.len() as usize)
    }

    /// Lines of the log, from an offset on, that report a crash, or a resource that a statement did not release.
    pub fn trouble(&self, from: usize) -> Vec<String> {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(log.get(from..).unwrap_or_default()).into_owned();
        // Signal 9 is what tests themselves send.
        let bad = |line: &&str| {
            let killed = line.contains("terminated by signal") && !line.contains("signal 9");
            let left = LEFT.iter().any(|word| line.contains("WARNING:") && line.contains(word));
            killed || left || CRASHED.iter().any(|word| line.contains(word))
        };
        log.lines().filter(bad).map(str::to_owned).collect()
    }

    /// The end of the log, for a failure's message.
    pub fn log_end(&self) -> String {
        let log = fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<_> = log.lines().collect();
        format!("the server's log ends:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let trouble = self.trouble(0);
            eprintln!("{}\n{}", trouble.join("\n"), self.log_end());
        }
        LIVE.lock().unwrap().remove(&self.id);
        self.slot.clean();
    }
}

/// What the log says of a crash, or of a standby's page that is not the primary's.
const CRASHED: [&str; 3] = ["TRAP:", "PANIC:", "inconsistent page found"];

/// What PostgreSQL warns of when a statement or a transaction has left something open.
const LEFT: [&str; 5] =
    [" leak:", "resource was not closed", "don't own", "problem in alloc set", "still referenced"];

fn recovering(error: &postgres::Error) -> bool {
    error.code() == Some(&SqlState::CANNOT_CONNECT_NOW)
}

/// Whether a process exists that has not ended. One that has ended may still be there, because nobody waits for it.
fn is_running(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in brackets and may contain some.
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// The processes whose parent is `parent`.
fn children_of(parent: u32) -> Vec<i32> {
    let output = Command::new("ps").args(["-A", "-o", "pid=,ppid="]).output().expect("ps");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let pairs = text.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<i32>().ok());
        Some((numbers.next()??, numbers.next()??))
    });
    pairs.filter(|&(_, ppid)| ppid == parent as i32).map(|(pid, _)| pid).collect()
}

/// The layout of all indexes that do not say theirs, if the environment says another one than the default.
fn layout() -> Option<String> {
    std::env::var("PG_SKIP_LAYOUT").ok().filter(|layout| layout != "auto")
}

/// Whether the layout of indexes that do not say theirs is the default.
pub fn has_default_layout() -> bool {
    layout().is_none()
}

/// Whether indexes that do not say their layout have maps.
pub fn has_maps() -> bool {
    layout().as_deref() != Some("filters")
}
