//! A gateway process.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use super::PATIENCE;
use super::client::{Connection, Response, get};

/// The binary under test.
pub const TOLLGATE: &str = env!("CARGO_BIN_EXE_tollgate");

/// Returns a command of the binary. A gateway that it starts listens on free ports.
pub fn command() -> Command {
    let mut command = Command::new(TOLLGATE);
    command.env("SERVER_PORT", "0").env("MANAGEMENT_SERVER_PORT", "0");
    command
}

/// Runs a command to its end. Returns its exit code, standard output and standard error.
pub fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command().args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Line of a process that has handed over its sockets and finished its requests.
const DRAINED: &str = "all requests finished";

/// A running gateway; killed when dropped.
pub struct Gateway {
    child: Child,
    /// Address of the gateway.
    pub address: SocketAddr,
    /// Address of the admin port.
    pub admin: SocketAddr,
    log: Arc<Log>,
    _folder: tempfile::TempDir,
    config: PathBuf,
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    grown: Condvar,
}

impl Gateway {
    /// Starts a gateway on `yaml` and waits until it listens. Ports are free ones. Unless the YAML sets them, there
    /// is one worker and the access log is off.
    pub fn start(yaml: &str) -> Self {
        Self::start_with(yaml, &[])
    }

    /// The same with environment variables.
    pub fn start_with(yaml: &str, environment: &[(&str, &str)]) -> Self {
        Self::launch(yaml, command(), environment)
    }

    /// Starts a gateway on `yaml` with further files over it.
    pub fn start_over(yaml: &str, overlays: &[&Path]) -> Self {
        Self::launch_over(yaml, overlays, command(), &[])
    }

    /// The same from a shell that has run `before`, such as `ulimit -n 40`.
    pub fn start_under(before: &str, yaml: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.env("SERVER_PORT", "0").env("MANAGEMENT_SERVER_PORT", "0");
        shell.args(["-c", &format!("{before}; exec \"$0\" \"$@\""), TOLLGATE]);
        Self::launch(yaml, shell, &[])
    }

    fn launch(yaml: &str, command: Command, environment: &[(&str, &str)]) -> Self {
        Self::launch_over(yaml, &[], command, environment)
    }

    fn launch_over(yaml: &str, overlays: &[&Path], mut command: Command, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("tollgate.yaml");
        std::fs::write(&config, with_defaults(yaml)).unwrap();
        command
            .arg("--config")
            .arg(&config)
            .args(overlays.iter().flat_map(|overlay| [Path::new("--config"), overlay]))
            // Tests count the reloads that they ask for.
            .arg("--tollgate.config.watch=false")
            .envs(environment.iter().copied());
        Self::run(command, folder, config)
    }

    /// Runs `command`, the binary with its arguments and environment, and waits until it listens. The environment must ask
    /// for free ports.
    pub fn from_command(command: Command) -> Self {
        Self::run(command, tempfile::tempdir().unwrap(), PathBuf::new())
    }

    fn run(mut command: Command, folder: tempfile::TempDir, config: PathBuf) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Log::default());
        let stderr = child.stderr.take().unwrap();
        let sink = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sink.lines.lock().unwrap().push(line);
                sink.grown.notify_all();
            }
        });
        let line = log.wait_for("listening on http");
        let after = |marker: &str| {
            let rest = line.split(marker).nth(1).unwrap_or_else(|| panic!("no {marker} in {line}"));
            let end = rest.find([' ', '"']).unwrap_or(rest.len());
            let mut address: SocketAddr = rest[..end].parse().unwrap();
            if address.ip().is_unspecified() {
                address.set_ip(Ipv4Addr::LOCALHOST.into());
            }
            address
        };
        let scheme = if line.contains("listening on https://") { "https" } else { "http" };
        let admin_scheme = if line.contains("admin=\"https://") { "https" } else { "http" };
        let address = after(&format!("listening on {scheme}://"));
        let admin = after(&format!("admin=\"{admin_scheme}://"));
        Self { child, address, admin, log, _folder: folder, config }
    }

    /// Starts a gateway with a single route that sends every path to `uri`.
    pub fn to(uri: &str) -> Self {
        Self::start(&format!("routes: [{{id: all, uri: '{uri}', predicates: [Path=/**]}}]"))
    }

    /// The same with filters, as a YAML list.
    pub fn filtering(uri: &str, filters: &str) -> Self {
        Self::start(&format!("routes: [{{id: all, uri: '{uri}', predicates: [Path=/**], filters: {filters}}}]"))
    }

    /// Opens a connection.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// Opens a connection to the admin port.
    pub fn connect_admin(&self) -> Connection {
        Connection::open(self.admin)
    }

    /// Sends `GET path` on a new connection.
    pub fn get(&self, path: &str) -> Response {
        get(self.address, path)
    }

    /// Sends `GET path` to the admin port.
    pub fn admin(&self, path: &str) -> Response {
        get(self.admin, path)
    }

    /// Returns the value of a metric: the sum over the series that start with `name` and contain all of `labels`.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let page = self.admin("/metrics").text();
        let series =
            page.lines().filter(|line| line.starts_with(name) && labels.iter().all(|label| line.contains(label)));
        series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Waits until a line of the log contains `text`, from the start of the log on.
    pub fn logged(&self, text: &str) -> String {
        self.log.wait_for(text)
    }

    /// Returns the log.
    pub fn log(&self) -> String {
        self.log.lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner).join("\n")
    }

    /// Writes a new configuration and reloads it; returns once it is applied or refused.
    pub fn reload(&self, yaml: &str) {
        let before = self.log.count("reloaded");
        std::fs::write(&self.config, with_defaults(yaml)).unwrap();
        self.signal("HUP");
        self.log.wait_until(|lines| lines.iter().filter(|line| line.contains("reloaded")).count() > before);
    }

    /// Returns the path of the configuration.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Resident memory, in bytes.
    pub fn resident(&self) -> usize {
        self.memory("VmRSS:")
    }

    /// Resident memory without the pages of the program's file, in bytes.
    pub fn allocated(&self) -> usize {
        self.memory("RssAnon:")
    }

    /// A line of `/proc/PID/status`, in bytes.
    fn memory(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }

    /// Hands the sockets of the latest process to a new one, and waits until the former has drained.
    pub fn hand_over(&self) {
        let (before, drained) = (self.processes(), self.log.count(DRAINED));
        signal(*before.last().unwrap(), "USR2");
        self.log.wait_until(|lines| lines.iter().filter(|line| line.contains(DRAINED)).count() > drained);
        assert_eq!(self.processes().len(), before.len() + 1);
    }

    /// Process ids: of the one that was started, and of those to which sockets were handed over.
    pub fn processes(&self) -> Vec<u32> {
        let log = self.log();
        let starts = log.lines().filter(|line| line.contains("a new process starts"));
        let pid = |line: &str| line.split("pid=").nth(1)?.split(' ').next()?.parse().ok();
        [self.pid()].into_iter().chain(starts.filter_map(pid)).collect()
    }

    /// Sends a signal to the gateway: `TERM`, `HUP`, `KILL` …
    pub fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Waits until the gateway exits.
    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the gateway does not end:\n{}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.processes().into_iter().skip(1) {
            // A process that has ended may have been followed by another one with its number.
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&arguments).contains("tollgate") {
                let _ = Command::new("kill").arg("-KILL").arg(pid.to_string()).status();
            }
        }
        if std::thread::panicking() {
            eprintln!("--- the gateway's log ---\n{}", self.log());
        }
    }
}

impl Log {
    fn wait_for(&self, text: &str) -> String {
        let lines = self.wait_until(|lines| lines.iter().any(|line| line.contains(text)));
        lines.into_iter().find(|line| line.contains(text)).unwrap()
    }

    fn wait_until(&self, found: impl Fn(&[String]) -> bool) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let (lines, timeout) = self.grown.wait_timeout_while(lines, PATIENCE, |lines| !found(lines)).unwrap();
        assert!(!timeout.timed_out(), "the log does not contain the awaited line:\n{}", lines.join("\n"));
        lines.clone()
    }

    fn count(&self, text: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|line| line.contains(text)).count()
    }
}

/// Sends a signal to a process that these tests started.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status().unwrap();
    assert!(status.success());
}

fn with_defaults(yaml: &str) -> String {
    let mut text = String::new();
    if !yaml.contains("server:") {
        text.push_str("server: {address: 127.0.0.1, workers: 1}\n");
    }
    if !yaml.contains("access-log:") {
        text.push_str("access-log: {output: off}\n");
    }
    text + yaml
}
