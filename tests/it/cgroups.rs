//! Workers and bounds that follow from the cgroup (v2) of the process: a folder of its own takes its place.

use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::support::client::Connection;
use crate::support::eventually;
use crate::support::gateway::{Gateway, TOLLGATE};

/// Puts the folder of the test in the place of the process's cgroup, and becomes the gateway.
const SCRIPT: &str =
    "mount --bind \"$CGROUP\" /sys/fs/cgroup && mount --bind \"$CGROUP/self\" /proc/$$/cgroup && exec \"$0\" \"$@\"";

fn start(folder: &Path, limits: &[(&str, &str)]) -> Gateway {
    let config = folder.join("tollgate.yaml");
    let files = [("cgroup.controllers", "cpu memory\n"), ("self", "0::/\n")];
    for (name, text) in files.iter().chain(limits) {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let routes = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";
    std::fs::write(&config, format!("server: {{address: 127.0.0.1}}\naccess-log: {{output: off}}\n{routes}")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", SCRIPT, TOLLGATE, "--config"]).arg(config);
    command.env("CGROUP", folder).env("SERVER_PORT", "0").env("MANAGEMENT_SERVER_PORT", "0");
    Gateway::from_command(command)
}

#[test]
fn a_quota_of_one_core_is_one_worker() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = start(folder.path(), &[("cpu.max", "100000 100000\n")]);
    let line = gateway.logged("listening on http");
    assert!(line.contains(" workers=1 "), "{line}");
}

#[test]
fn a_memory_limit_bounds_the_connections() {
    let folder = tempfile::tempdir().unwrap();
    // A quarter of a megabyte has room for 16 connections, and one client gets a quarter of them.
    let gateway = start(folder.path(), &[("memory.max", "1048576\n")]);
    let mut open: Vec<_> = (0..4).map(|_| Connection::open(gateway.address)).collect();
    for client in &mut open {
        assert_eq!(client.request("GET", "/", &[("Host", "a")], b"").status, 200);
    }
    let mut refused = std::net::TcpStream::connect(gateway.address).unwrap();
    refused.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(refused.read(&mut [0]), Ok(0) | Err(_)));
    eventually("it is counted", || gateway.metric("tollgate_client_connections_refused_total", &[]) == 1.0);
    drop(open);
}
