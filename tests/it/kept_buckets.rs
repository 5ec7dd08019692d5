//! Buckets in memory over a restart: they are handed to the next process, by SIGUSR2 or in a file.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::gateway::{Gateway, TOLLGATE};
use crate::support::load::{Load, statuses};
use crate::support::upstream::Upstream;

/// One rule of each algorithm, which admits some requests and then none for an hour.
const RULES: [&str; 11] = [
    "algorithm: token-bucket, replenish-rate: 1, period: 1h, burst-capacity: 3",
    "algorithm: gcra, replenish-rate: 1, period: 1h, burst-capacity: 3",
    "replenish-rate: 3, period: 1h, burst-capacity: 3, refill: interval",
    "replenish-rate: 3, period: 365d, burst-capacity: 3, refill: aligned",
    "algorithm: fixed-window, limit: 3, window: 1h",
    "algorithm: fixed-window, limit: 3, window: year",
    "algorithm: sliding-window-log, limit: 3, window: 1h",
    "algorithm: sliding-window-counter, limit: 3, window: 365d",
    "algorithm: leaky-bucket, rate: 1, period: 1h, max-queue: 0",
    "algorithm: quota, allowance: 3",
    "algorithm: quota, allowance: 3, reset: year",
];

fn yaml(memory: &str) -> String {
    let route = |(number, rule): (usize, &&str)| {
        format!(
            "- {{id: r{number}, uri: 'echo:', predicates: [Path=/{number}], filters: [{{name: RequestRateLimiter, \
             args: {{{rule}, key-resolver: 'header:x-key'}}}}]}}\n"
        )
    };
    let routes: String = RULES.iter().enumerate().map(route).collect();
    format!("server: {{address: 127.0.0.1, workers: 2}}\nmemory: {{{memory}}}\nroutes:\n{routes}")
}

/// Returns the statuses of a request to each route.
fn ask(gateway: &Gateway, key: &str) -> Vec<u16> {
    let ask = |number| gateway.connect().request("GET", &format!("/{number}"), &[("X-Key", key)], b"").status;
    (0..RULES.len()).map(ask).collect()
}

fn spend(gateway: &Gateway) {
    assert_eq!(ask(gateway, "k"), [200; RULES.len()]);
    while ask(gateway, "k").contains(&200) {}
}

fn stop(gateway: &mut Gateway) {
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
}

struct StateFile {
    folder: tempfile::TempDir,
    yaml: String,
}

impl StateFile {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let yaml = yaml(&format!("state-file: '{}'", folder.path().join("buckets").display()));
        Self { folder, yaml }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("buckets")
    }

    fn start(&self) -> Gateway {
        Gateway::start(&self.yaml)
    }

    /// Starts a gateway that does not use the file. It warns, and serves with full buckets.
    fn is_ignored(&self, message: &str) {
        let mut gateway = self.start();
        let line = gateway.logged("not restored, they start full");
        let path = self.path();
        let path = path.to_str().unwrap();
        assert!(line.contains("WARN") && line.contains(message) && line.contains(path), "{message}: {line}");
        spend(&gateway);
        gateway.signal("KILL");
        gateway.wait();
    }
}

#[test]
fn spent_keys_stay_spent_over_handovers_under_every_algorithm() {
    let gateway = Gateway::start(&yaml(""));
    spend(&gateway);
    for _ in 0..2 {
        gateway.hand_over();
        assert_eq!(ask(&gateway, "k"), [429; RULES.len()]);
    }
    assert_eq!(ask(&gateway, "another"), [200; RULES.len()]);
}

#[test]
fn a_handover_under_load_admits_no_fresh_burst() {
    let upstream = Upstream::ok("hello");
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 2}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: \
         [{{name: RequestRateLimiter, args: {{algorithm: quota, allowance: 3000, key-resolver: 'header:x-key'}}}}]}}]\n",
        upstream.uri()
    ));
    let clients = 8;
    let load = Load::start(&[gateway.address], clients, &["/a"]);
    load.more(500);
    gateway.hand_over();
    load.more(500);
    gateway.hand_over();
    load.more(6_000);
    let exchanges = load.stop();
    let admitted = exchanges.iter().filter(|exchange| exchange.status() == 200).count();
    println!("{admitted} of 3000 admitted in {} requests", exchanges.len());
    assert!(statuses(&exchanges).iter().all(|(status, _)| [200, 429].contains(status)), "{:?}", statuses(&exchanges));
    // A request that a client sends at the very moment of the snapshot may be admitted twice.
    assert!((3_000..=3_000 + 2 * clients).contains(&admitted), "{admitted}");
}

#[test]
fn spent_keys_stay_spent_over_a_restart_with_a_file() {
    let state = StateFile::new();
    let mut gateway = state.start();
    spend(&gateway);
    stop(&mut gateway);
    let metadata = fs::metadata(state.path()).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(state.folder.path()).unwrap().count(), 1, "no temporary file stays");
    for _ in 0..2 {
        let mut gateway = state.start();
        gateway.logged("buckets of the process before restored");
        assert_eq!(ask(&gateway, "k"), [429; RULES.len()]);
        assert_eq!(ask(&gateway, "another").len(), RULES.len());
        stop(&mut gateway);
    }
}

#[test]
fn buckets_are_not_kept_if_the_setting_says_so() {
    let state = StateFile::new();
    let off = state.yaml.replace("memory: {", "memory: {hand-over: false, ");
    let mut gateway = Gateway::start(&off);
    spend(&gateway);
    gateway.hand_over();
    spend(&gateway);
    gateway.wait();
    let last = gateway.processes().pop().unwrap();
    crate::support::gateway::signal(last, "TERM");
    crate::support::eventually("the last process ends", || !Path::new(&format!("/proc/{last}/fd/0")).exists());
    assert!(!state.path().exists());
}

#[test]
fn a_file_that_cannot_be_used_is_ignored_with_a_warning() {
    let state = StateFile::new();
    let mut gateway = state.start();
    gateway.logged("no buckets of an earlier process");
    spend(&gateway);
    stop(&mut gateway);
    let good = fs::read(state.path()).unwrap();
    let write = |bytes: &[u8]| fs::write(state.path(), bytes).unwrap();
    write(b"");
    state.is_ignored("cut short or changed");
    write(&good[..10]);
    state.is_ignored("cut short or changed");
    write(b"[[1, 2], [3, 4]] and other notes of mine");
    state.is_ignored("it holds no buckets; the file stays as it is: name another one");
    write(&[&good[..16], &[9, 0, 0, 0], &good[20..]].concat());
    state.is_ignored("its version is 9, and this program reads version 3");
    write(&good[..good.len() / 2]);
    state.is_ignored("cut short or changed");
    write(&[&good[..], b"x"].concat());
    state.is_ignored("cut short or changed");
    fs::remove_file(state.path()).unwrap();
    symlink("/dev/zero", state.path()).unwrap();
    state.is_ignored("it is not a regular file");
    fs::remove_file(state.path()).unwrap();
    fs::create_dir(state.path()).unwrap();
    state.is_ignored("it is not a regular file");
}

/// Returns a number as the format of the file has it: seven bits per byte, the lowest first.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

#[test]
fn a_file_from_the_future_is_ignored_with_a_warning() {
    let state = StateFile::new();
    let mut gateway = state.start();
    spend(&gateway);
    stop(&mut gateway);
    let good = fs::read(state.path()).unwrap();
    // The secret key follows the version; then the steady clock, and the wall clock.
    let after = |from: usize| from + good[from..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    let (wall, rest) = (after(36), after(after(36)));
    let now_us = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64;
    let tomorrow = varint(now_us + 86_400_000_000);
    let body = [&good[..wall], &tomorrow[..], &good[rest..good.len() - 32]].concat();
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &body);
    fs::write(state.path(), [&body, hash.as_ref()].concat()).unwrap();
    state.is_ignored("s in the future");
}

#[test]
fn a_file_of_another_program_and_a_folder_are_not_replaced() {
    type Create = fn(&Path);
    let cases: [(Create, &str); 2] = [
        (|path| fs::write(path, "notes of mine").unwrap(), "one of another program: name another one"),
        (|path| fs::create_dir(path).unwrap(), "not a regular file: name one in an own folder"),
    ];
    for (create, message) in cases {
        let state = StateFile::new();
        let mut gateway = state.start();
        create(&state.path());
        gateway.signal("TERM");
        let line = gateway.logged("buckets lost, the next process starts with full ones");
        assert!(line.contains("memory.state-file") && line.contains(message), "{line}");
        assert_eq!(gateway.wait().code(), Some(0));
        assert!(state.path().is_dir() || fs::read(state.path()).unwrap() == b"notes of mine");
        assert_eq!(fs::read_dir(state.folder.path()).unwrap().count(), 1, "no temporary file stays");
    }
}

#[test]
fn buckets_that_cannot_be_left_are_not_those_that_the_next_process_restores() {
    let state = StateFile::new();
    let mut gateway = state.start();
    stop(&mut gateway);
    let mut gateway = state.start();
    spend(&gateway);
    // In the way of the file before it has its name.
    fs::create_dir(state.folder.path().join("buckets.new")).unwrap();
    stop(&mut gateway);
    gateway.logged("buckets lost, the next process restores the older ones of the file");
    assert_eq!(ask(&state.start(), "k"), [200; RULES.len()]);
}

#[test]
fn a_file_of_another_user_is_a_warning_with_advice() {
    let state = StateFile::new();
    fs::write(state.path(), "").unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o000)).unwrap();
    fs::write(state.folder.path().join("tollgate.yaml"), &state.yaml).unwrap();
    let command = |name: &str| {
        let mut command = Command::new("sh");
        // With its capabilities, root may read every file.
        let drop = "[ $(id -u) != 0 ] || set -- setpriv --bounding-set=-all --inh-caps=-all \"$@\"; exec \"$@\"";
        command.args(["-c", drop, "sh", TOLLGATE, name]).arg(state.folder.path().join("tollgate.yaml"));
        command.env("SERVER_PORT", "0").env("MANAGEMENT_SERVER_PORT", "0");
        command
    };
    let output = command("check").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("buckets cannot be read: this user may not read it"), "{text}");
    let gateway = Gateway::from_command(command("serve"));
    let line = gateway.logged("not restored, they start full");
    assert!(line.contains("give the file to the user that runs the gateway, or remove it"), "{line}");
}
