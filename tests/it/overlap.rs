//! `server.reuse-port`: another process listens beside the first one.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use crate::lifecycle::yaml;
use crate::support::clients::Slow;
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::load::{Load, statuses};
use crate::support::upstream::Upstream;

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
    _upstream: Upstream,
    yaml: String,
}

impl Instances {
    fn new(allowance: usize) -> Self {
        let (folder, upstream) = (tempfile::tempdir().unwrap(), Upstream::ok("hello"));
        let yaml = format!(
            "server: {{address: 127.0.0.1, workers: 2, reuse-port: true, handover-timeout: 3s}}\n\
             memory: {{state-file: '{}'}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**], filters: \
             [{{name: RequestRateLimiter, args: {{algorithm: quota, allowance: {allowance}, key-resolver: 'header:x-key'}}}}]}}]\n",
            folder.path().join("buckets").display(),
            upstream.uri()
        );
        Self { folder, _upstream: upstream, yaml }
    }

    fn socket(&self, gateway: &Gateway) -> std::path::PathBuf {
        self.folder.path().join(format!("buckets.{}.sock", gateway.address))
    }
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
