//! `server.reuse-port`: another process listens beside the first one.

mod failures;
mod turns;

use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Child, ChildStderr, Stdio};

use crate::lifecycle::yaml;
use crate::support::clients::Slow;
use crate::support::gateway::{Gateway, command};
use crate::support::load::{Load, statuses};
use crate::support::upstream::Upstream;
use crate::support::{PATIENCE, eventually};

/// Starts a gateway on the port of another one.
fn beside(first: &Gateway, yaml: &str) -> Gateway {
    Gateway::start_with(yaml, &[("SERVER_PORT", &first.address.port().to_string())])
}

#[test]
fn instances_beside_each_other_replace_each_other_under_load_and_lose_no_request() {
    let slow = Slow::start();
    let yaml = yaml(&slow.upstream, ", reuse-port: true");
    let mut gateway = Gateway::start(&yaml);
    slow.over_restarts(gateway.address, || {
        let next = beside(&gateway, &yaml);
        eventually("the other one is ready", || next.admin("/health/ready").status == 200);
        gateway.signal("TERM");
        assert_eq!(gateway.wait().code(), Some(0));
        gateway = next;
    });
}

/// Gateways that share a port and a file for their buckets.
struct Instances {
    folder: tempfile::TempDir,
    upstream: Upstream,
    yaml: String,
}

impl Instances {
    fn new(allowance: usize) -> Self {
        let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::ok("hello"));
        let yaml = format!(
            "server: {{address: 127.0.0.1, workers: 2, reuse-port: true, handover-timeout: 3s}}\n\
             memory: {{state-file: '{}'}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: \
             [{{name: RequestRateLimiter, args: {{algorithm: quota, allowance: {allowance}, key-resolver: ip}}}}]}}]\n",
            folder.path().join("buckets").display(),
            upstream.uri()
        );
        Self { folder, upstream, yaml }
    }

    fn socket(&self, gateway: &Gateway) -> std::path::PathBuf {
        self.folder.path().join(format!("buckets.{}.sock", gateway.address))
    }

    /// Takes the turn of the processes that start, as soon as that of `gateway` has ended.
    fn lock(&self, gateway: &Gateway) -> fs::File {
        let lock = fs::File::open(self.folder.path().join(format!("buckets.{}.lock", gateway.address))).unwrap();
        eventually("the turn has ended", || lock.try_lock().is_ok());
        lock
    }
}

/// Returns `yaml` with a service of `registry`, which accepts connections and does not respond: the start takes a while.
fn asking(yaml: &str, registry: &TcpListener) -> String {
    let port = registry.local_addr().unwrap().port();
    let routes = "routes: [{id: b, uri: 'lb://b', predicates: [Path=/b]}, ";
    format!("consul: {{host: 127.0.0.1, port: {port}}}\n{}", yaml.replace("routes: [", routes))
}

/// Gateway beside another one that may not serve; killed when dropped.
struct Starting {
    child: Child,
    messages: Lines<BufReader<ChildStderr>>,
    _folder: tempfile::TempDir,
}

impl Starting {
    fn beside(first: &Gateway, yaml: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("tollgate.yaml");
        fs::write(&config, yaml).unwrap();
        let mut command = command();
        command.env("SERVER_PORT", first.address.port().to_string()).envs(environment.iter().copied());
        let mut child = command.arg("--config").arg(config).stderr(Stdio::piped()).spawn().unwrap();
        let messages = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, messages, _folder: folder }
    }

    /// Waits for a message.
    #[track_caller]
    fn says(&mut self, text: &str) {
        assert!(self.messages.any(|line| line.unwrap().contains(text)), "it does not say `{text}`");
    }

    /// Waits until it has ended. Returns its exit code and messages.
    fn end(&mut self) -> (Option<i32>, String) {
        let messages: Vec<_> = self.messages.by_ref().map(Result::unwrap).collect();
        (self.child.wait().unwrap().code(), messages.join("\n"))
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a gateway beside another one that does not start. Returns its messages.
fn fails(first: &Gateway, yaml: &str, environment: &[(&str, &str)]) -> String {
    let (code, messages) = Starting::beside(first, yaml, environment).end();
    assert_eq!(code, Some(1), "{messages}");
    messages
}

#[test]
fn an_instance_beside_another_takes_its_buckets_and_the_other_drains() {
    let (clients, instances) = (8, Instances::new(3_000));
    let mut gateway = Gateway::start(&instances.yaml);
    eventually("others can ask", || instances.socket(&gateway).exists());
    assert_eq!(fs::metadata(instances.socket(&gateway)).unwrap().permissions().mode() & 0o777, 0o600);
    let load = Load::start(&[gateway.address], clients, &["/a"]);
    for _ in 0..2 {
        load.more(500);
        let next = beside(&gateway, &instances.yaml);
        assert_eq!(gateway.wait().code(), Some(0));
        gateway.logged("handed over");
        eventually("it is ready", || next.admin("/health/ready").status == 200);
        gateway = next;
        eventually("others can ask it", || UnixStream::connect(instances.socket(&gateway)).is_ok());
    }
    load.more(6_000);
    let exchanges = load.stop();
    let admitted = exchanges.iter().filter(|exchange| exchange.status() == 200).count();
    println!("{admitted} of 3000 admitted in {} requests", exchanges.len());
    assert!(statuses(&exchanges).iter().all(|(status, _)| [200, 429].contains(status)), "{:?}", statuses(&exchanges));
    // The old one serves what is in its queues at the moment of the snapshot.
    assert!((3_000..=3_000 + 4 * clients).contains(&admitted), "{admitted}");
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    assert!(!instances.socket(&gateway).exists() && instances.folder.path().join("buckets").exists());
}

#[test]
fn an_instance_beside_another_reports_to_its_own_service_manager() {
    let instances = Instances::new(5);
    let mut gateway = Gateway::start(&instances.yaml);
    let path = instances.folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = gateway.address.port().to_string();
    let _next =
        Gateway::start_with(&instances.yaml, &[("SERVER_PORT", &port), ("NOTIFY_SOCKET", path.to_str().unwrap())]);
    let mut message = [0; 64];
    let length = manager.recv(&mut message).unwrap();
    assert_eq!(message[..length], *b"READY=1\n");
    assert_eq!(gateway.wait().code(), Some(0), "it has handed over");
}

#[test]
fn a_client_of_the_socket_that_is_no_gateway_changes_nothing() {
    let instances = Instances::new(5);
    let gateway = Gateway::start(&instances.yaml);
    eventually("others can ask", || instances.socket(&gateway).exists());
    drop(UnixStream::connect(instances.socket(&gateway)).unwrap());
    gateway.logged("the other process has ended before it could serve");
    let mut other = UnixStream::connect(instances.socket(&gateway)).unwrap();
    other.write_all(b"GET / HTTP/1.1").unwrap();
    gateway.logged("no gateway that can take over (it sent 0x47)");
    let silent = UnixStream::connect(instances.socket(&gateway)).unwrap();
    gateway.logged("did not serve within 3s");
    drop(silent);
    eventually("it goes on", || gateway.get("/a").header("connection").is_none());
    assert_eq!(gateway.admin("/health/ready").status, 200);
}

#[test]
fn an_instance_on_another_port_replaces_none() {
    let instances = Instances::new(5);
    let gateway = Gateway::start(&instances.yaml);
    eventually("others can ask", || instances.socket(&gateway).exists());
    let other = Gateway::start(&instances.yaml);
    assert_ne!(other.address, gateway.address);
    eventually("others can ask it", || instances.socket(&other).exists());
    for instance in [&gateway, &other] {
        assert_eq!(instance.get("/a").header("connection"), None);
        assert_eq!(instance.admin("/health/ready").status, 200);
    }
}
