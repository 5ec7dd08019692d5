//! Logs that cannot be written: full pipes, named pipes without a reader, and signals that must still end the process.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::support::client::{Connection, get};
use crate::support::gateway::{Gateway, TOLLGATE, signal};
use crate::support::{PATIENCE, eventually, free_address};

/// Flag of an open call that does not wait (`O_NONBLOCK` on Linux).
const NONBLOCK: i32 = 0o4000;

/// Named pipe without room. Nothing reads it until [`FullPipe::drain`].
struct FullPipe {
    /// Keeps the pipe open in both directions.
    pipe: File,
    path: PathBuf,
}

impl FullPipe {
    fn create(path: PathBuf) -> Self {
        make_fifo(&path);
        let mut pipe = OpenOptions::new().read(true).write(true).custom_flags(NONBLOCK).open(&path).unwrap();
        for size in [4096, 1] {
            while pipe.write(&[b'\n'; 4096][..size]).is_ok() {}
        }
        Self { pipe, path }
    }

    /// Opens the pipe for a process, in blocking mode.
    fn writer(&self) -> Stdio {
        OpenOptions::new().write(true).open(&self.path).unwrap().into()
    }

    /// Reads whatever is in the pipe.
    fn drain(&mut self) -> String {
        let mut text = Vec::new();
        let _ = self.pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Gateway on a fixed port, whose log need not be readable.
struct Blind {
    child: Child,
    address: std::net::SocketAddr,
    admin: std::net::SocketAddr,
    _folder: tempfile::TempDir,
}

impl Blind {
    fn start(routes: &str, more: &str, stdout: Stdio, stderr: Stdio) -> Self {
        let (address, admin) = (free_address(), free_address());
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("tollgate.yaml");
        let yaml = format!(
            "server: {{address: 127.0.0.1, port: {}, workers: 2}}\nmanagement: {{server: {{port: {}}}}}\n{more}\n{routes}\n",
            address.port(),
            admin.port()
        );
        std::fs::write(&config, yaml).unwrap();
        let child = Command::new(TOLLGATE)
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .unwrap();
        let gateway = Self { child, address, admin, _folder: folder };
        eventually("the gateway listens", || Connection::try_open(address).is_ok());
        gateway
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "the gateway does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn metric(&self, name: &str) -> f64 {
        let page = get(self.admin, "/metrics").text();
        page.lines()
            .filter(|line| line.starts_with(name))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
            .sum()
    }
}

impl Drop for Blind {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const LIMITED: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{name: RequestRateLimiter, \
                       args: {key-resolver: ip, replenish-rate: 100, burst-capacity: 100}}]}]";
const ECHO: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/a]}]";

#[test]
fn an_unread_stderr_pipe_stops_neither_start_nor_requests_nor_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = FullPipe::create(folder.path().join("stderr"));
    let more = "access-log: {output: off}\nlog: {level: debug}";
    let mut gateway = Blind::start(LIMITED, more, Stdio::null(), pipe.writer());
    let mut client = Connection::open(gateway.address);
    for _ in 0..50 {
        assert_eq!(client.request("GET", "/a", &[], b"").status, 200);
    }
    // Each change of a limit is a line of 8 KB; the queue holds 1 MB.
    let mut admin = Connection::open(gateway.admin);
    let path = format!("/api/limits/a/{}", "k".repeat(8000));
    for _ in 0..150 {
        assert_eq!(admin.request("DELETE", &path, &[], b"").status, 200);
    }
    assert!(gateway.metric("tollgate_log_lost_lines_total") > 0.0, "lines are dropped and counted");
    assert_eq!(client.request("GET", "/a", &[], b"").status, 200);
    assert_eq!(get(gateway.admin, "/health/ready").status, 200);
    drop(client);
    let (seen, found) = channel();
    let mut reader = BufReader::new(OpenOptions::new().read(true).open(&pipe.path).unwrap());
    std::thread::spawn(move || {
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
            if line.contains("log output is too slow") {
                let _ = seen.send(std::mem::take(&mut line));
            }
            line.clear();
        }
    });
    let line = found.recv_timeout(PATIENCE).expect("the loss is reported once there is room");
    assert!(line.contains("lines="), "{line}");
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn one_sigterm_ends_a_gateway_whose_logs_are_full_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let (out, err) = (FullPipe::create(folder.path().join("stdout")), FullPipe::create(folder.path().join("stderr")));
    let mut gateway = Blind::start(ECHO, "", out.writer(), err.writer());
    let mut client = Connection::open(gateway.address);
    for _ in 0..100 {
        assert_eq!(client.request("GET", "/a", &[], b"").status, 200);
    }
    drop(client);
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn a_start_that_fails_ends_although_nothing_reads_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut pipe = FullPipe::create(folder.path().join("stderr"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = folder.path().join("tollgate.yaml");
    let port = taken.local_addr().unwrap().port();
    std::fs::write(&config, format!("server: {{address: 127.0.0.1, port: {port}}}\n{ECHO}\n")).unwrap();
    let mut command = Command::new(TOLLGATE);
    command.arg("--config").arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
    let status = command.stderr(pipe.writer()).status().unwrap();
    assert_eq!(status.code(), Some(1));
    pipe.drain();
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && text.contains("tollgate: cannot listen on"), "{text}");
}

#[test]
fn a_named_pipe_without_reader_delays_neither_start_nor_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.pipe");
    make_fifo(&path);
    let yaml = format!("access-log: {{output: '{}'}}\n{ECHO}", path.display());
    let mut gateway = Gateway::start(&yaml);
    gateway.logged("named pipe has no reader");
    assert_eq!(gateway.get("/a").status, 200);
    eventually("lines without a reader are counted", || {
        gateway.metric("tollgate_access_log_lost_lines_total", &[]) == 1.0
    });
    // A reader that comes later gets the lines from then on; a reader that leaves stops nothing.
    let mut reader = BufReader::new(OpenOptions::new().read(true).custom_flags(NONBLOCK).open(&path).unwrap());
    assert_eq!(gateway.get("/nowhere").status, 404);
    let mut line = String::new();
    eventually("the line arrives", || reader.read_line(&mut line).is_ok() && line.ends_with('\n'));
    assert!(line.contains("GET /nowhere HTTP/1.1"), "{line}");
    drop(reader);
    assert_eq!(gateway.get("/a").status, 200);
    eventually("the line is lost again", || gateway.metric("tollgate_access_log_lost_lines_total", &[]) == 2.0);
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn a_full_named_pipe_is_left_on_reload_and_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.pipe");
    let _pipe = FullPipe::create(path.clone());
    let yaml = format!("access-log: {{output: '{}'}}\n{ECHO}", path.display());
    let mut gateway = Gateway::start(&yaml);
    assert_eq!(gateway.get("/a").status, 200);
    std::fs::rename(&path, folder.path().join("moved.pipe")).unwrap();
    gateway.reload(&yaml);
    assert_eq!(gateway.get("/nowhere").status, 404);
    eventually("the new file has the line", || {
        std::fs::read_to_string(&path).is_ok_and(|text| text.contains("GET /nowhere HTTP/1.1"))
    });
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn a_reload_that_never_ends_stops_neither_probes_nor_shutdown() {
    let mut gateway = Gateway::start(ECHO);
    std::fs::remove_file(gateway.config()).unwrap();
    make_fifo(gateway.config());
    gateway.signal("HUP");
    let mut pipe = None;
    eventually("the reload reads the pipe", || {
        pipe = OpenOptions::new().write(true).custom_flags(NONBLOCK).open(gateway.config()).ok();
        pipe.is_some()
    });
    assert_eq!(gateway.admin("/health/live").status, 200);
    assert_eq!(gateway.get("/a").status, 200);
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn repeated_warnings_are_suppressed_with_their_count() {
    let mut gateway = Gateway::to(&format!("http://{}", free_address()));
    let mut client = gateway.connect();
    for _ in 0..100 {
        assert_eq!(client.request("GET", "/a", &[], b"").status, 502);
    }
    let written = gateway.log().matches("request not forwarded").count();
    eventually("the others are counted", || gateway.metric("tollgate_log_suppressed_lines_total", &[]) >= 80.0);
    assert!(written <= 20, "{written} lines for 100 requests");
    // The report comes after ten seconds, or at the end.
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    let report = gateway.logged("repeated log lines suppressed");
    assert!(report.contains("lines=80") && report.contains("event=\"request not forwarded\""), "{report}");
}
