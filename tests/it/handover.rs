//! SIGUSR2: a new process takes the listening sockets.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::lifecycle::{Held, yaml};
use crate::support::clients::{Clients, Slow};
use crate::support::gateway::{Gateway, TOLLGATE, signal};
use crate::support::upstream::{Upstream, read_request};
use crate::support::{PATIENCE, eventually, free_address};

#[test]
fn a_new_process_takes_the_sockets_under_load_and_loses_no_request() {
    let slow = Slow::start();
    let gateway = Gateway::start(&yaml(&slow.upstream, ""));
    slow.over_restarts(gateway.address, || gateway.hand_over());
    let health = gateway.admin("/health/ready");
    assert_eq!(health.status, 200, "the admin port belongs to the new process");
}

#[test]
fn requests_and_tunnels_in_flight_end_in_the_old_process() {
    let held = Held::start(true);
    let tunnel_upstream = Upstream::scripted(|stream, _| {
        if read_request(stream).is_none() {
            return;
        }
        let _ =
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
    });
    let mut gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 2}}\nroutes:\n\
         - {{id: tunnel, uri: '{}', predicates: [Path=/tunnel]}}\n\
         - {{id: held, uri: '{}', predicates: [Path=/**]}}\n",
        tunnel_upstream.uri(),
        held.upstream.uri()
    ));
    let (mut client, mut tunnel) = (gateway.connect(), gateway.connect());
    client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    held.arrived.recv().unwrap();
    tunnel.send("GET /tunnel HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert!(tunnel.until(b"\r\n\r\n").starts_with(b"HTTP/1.1 101"));
    gateway.signal("USR2");
    gateway.logged("handed over: waiting for in-flight requests");
    // The new process serves, and the old one goes on with what it has.
    let mut other = gateway.connect();
    other.send("GET /b HTTP/1.1\r\nHost: localhost\r\n\r\n");
    held.arrived.recv().unwrap();
    tunnel.send("x");
    assert_eq!(tunnel.take(1), b"x");
    held.release.send(()).unwrap();
    held.release.send(()).unwrap();
    for client in [&mut client, &mut other] {
        let response = client.response().expect("a response");
        assert_eq!((response.status, response.text().as_str(), response.complete), (200, "the whole answer", true));
    }
    tunnel.send("y");
    assert_eq!(tunnel.take(1), b"y", "the tunnel outlives the other requests");
    drop(tunnel);
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn the_first_signal_after_a_handover_cuts_no_request_and_the_second_one_does() {
    for cuts in [false, true] {
        let held = Held::start(true);
        let mut gateway = Gateway::start(&yaml(&held.upstream, ""));
        let mut client = gateway.connect();
        client.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
        held.arrived.recv().unwrap();
        gateway.signal("USR2");
        gateway.logged("handed over: waiting for in-flight requests");
        // As a service manager stops a unit.
        for pid in gateway.processes() {
            signal(pid, "TERM");
        }
        gateway.logged("handed over before the signal");
        gateway.logged("all requests finished");
        if cuts {
            gateway.signal("TERM");
            gateway.logged("second signal: exiting immediately");
        } else {
            held.release.send(()).unwrap();
        }
        assert_eq!(client.response().is_some_and(|response| response.complete), !cuts);
        assert_eq!(gateway.wait().code(), Some(0));
        assert_eq!(gateway.log().contains("second signal: exiting"), cuts, "{}", gateway.log());
    }
}

#[test]
fn readiness_never_fails_during_a_handover() {
    let upstream = Upstream::ok("hello");
    let gateway = Gateway::start(&yaml(&upstream, ""));
    eventually("it is ready", || gateway.admin("/health/ready").status == 200);
    std::thread::scope(|scope| {
        let handed_over = scope.spawn(|| gateway.hand_over());
        while !handed_over.is_finished() {
            assert_eq!(gateway.admin("/health/ready").status, 200);
        }
    });
}

/// A gateway whose program is a link, so that another program can replace it.
struct Replaceable {
    folder: tempfile::TempDir,
    gateway: Gateway,
}

impl Replaceable {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (program, config) = (folder.path().join("tollgate"), folder.path().join("tollgate.yaml"));
        symlink(TOLLGATE, &program).unwrap();
        fs::write(&config, config_text()).unwrap();
        let mut command = Command::new(&program);
        command.env("SERVER_PORT", "0").env("MANAGEMENT_SERVER_PORT", "0").arg("--config").arg(config);
        Self { gateway: Gateway::from_command(command), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the program by a script.
    fn replace(&self, script: &str) {
        fs::write(self.path("new"), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(self.path("new"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(self.path("new"), self.path("tollgate")).unwrap();
    }

    /// Asks for a handover that fails with `message`. The gateway goes on.
    fn fails(&self, message: &str) {
        self.gateway.signal("USR2");
        let line = self.gateway.logged(message);
        assert!(line.contains("not handed over, this process goes on"), "{line}");
        eventually("the process goes on", || self.gateway.get("/a").header("connection").is_none());
        assert_eq!(self.gateway.admin("/health/ready").status, 200);
        let started = self.gateway.processes().pop().unwrap();
        assert!(started == self.gateway.pid() || !Path::new(&format!("/proc/{started}")).exists(), "no process stays");
    }
}

fn config_text() -> &'static str {
    "server: {address: 127.0.0.1, workers: 2, handover-timeout: 3s}\naccess-log: {output: off}\n\
     routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n"
}

#[test]
fn an_emptied_file_replaces_no_routes() {
    let replaceable = Replaceable::start();
    fs::write(replaceable.path("tollgate.yaml"), "").unwrap();
    replaceable.fails("the new process has ended (exit status: 1)");
    replaceable.gateway.logged("not taking over: no routes");
}

#[test]
fn a_new_process_that_fails_leaves_the_old_one_serving() {
    let mut replaceable = Replaceable::start();
    let clients = Clients::start(replaceable.gateway.address, 1);
    fs::write(replaceable.path("tollgate.yaml"), "routes: [").unwrap();
    replaceable.fails("the new process has ended (exit status: 1)");
    fs::write(replaceable.path("tollgate.yaml"), config_text()).unwrap();
    replaceable.replace("exit 7");
    replaceable.fails("the new process has ended (exit status: 7)");
    replaceable.replace("kill -SEGV $$");
    replaceable.fails("the new process has ended (signal: 11");
    replaceable.replace("printf r >&3; exit 9");
    replaceable.fails("the new process has ended (exit status: 9)");
    replaceable.replace("printf r >&3; head -c 24 <&3 >/dev/null; exit 10");
    replaceable.fails("the new process has ended (exit status: 10)");
    replaceable.replace("printf xyz >&3; sleep 60");
    replaceable.fails("it sent 0x78");
    replaceable.replace("exec sleep 60");
    replaceable.fails("did not serve within 3s");
    fs::remove_file(replaceable.path("tollgate")).unwrap();
    replaceable.fails("cannot start the new process: No such file or directory");
    // A program that is correct again takes over.
    symlink(TOLLGATE, replaceable.path("tollgate")).unwrap();
    clients.more(5);
    replaceable.gateway.signal("USR2");
    replaceable.gateway.logged("handed over");
    assert_eq!(replaceable.gateway.wait().code(), Some(0));
    clients.more(5);
    clients.stop();
    signal(replaceable.gateway.processes().pop().unwrap(), "KILL");
}

#[test]
fn a_shutdown_during_a_handover_ends_both_processes() {
    let mut replaceable = Replaceable::start();
    replaceable.replace("exec sleep 60");
    replaceable.gateway.signal("USR2");
    replaceable.gateway.logged("a new process starts");
    replaceable.gateway.signal("TERM");
    assert_eq!(replaceable.gateway.wait().code(), Some(0));
    let started = replaceable.gateway.processes().pop().unwrap();
    assert!(!Path::new(&format!("/proc/{started}")).exists(), "the new process has ended");
}

#[test]
fn signals_during_a_handover_reach_the_new_process() {
    let mut replaceable = Replaceable::start();
    for name in ["USR2", "USR2"] {
        replaceable.gateway.signal(name);
    }
    replaceable.gateway.logged("a new process starts");
    for name in ["USR2", "HUP"] {
        replaceable.gateway.signal(name);
    }
    assert_eq!(replaceable.gateway.wait().code(), Some(0));
    let line = replaceable.gateway.logged("signal passed on");
    let processes = replaceable.gateway.processes();
    assert!(processes.len() == 2 && line.contains(&format!("SIGHUP pid={}", processes[1])), "{line}");
    replaceable.gateway.logged("configuration reloaded");
    assert_eq!(replaceable.gateway.get("/a").status, 200);
}

#[test]
fn the_service_manager_is_told_of_the_new_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let upstream = Upstream::ok("hello");
    let gateway = Gateway::start_with(&yaml(&upstream, ""), &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    let receive = || {
        let mut buffer = [0; 1024];
        let length = manager.recv(&mut buffer).expect("a message");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert_eq!(receive(), "READY=1\n");
    gateway.hand_over();
    let pid = gateway.processes().pop().unwrap();
    assert_eq!(receive(), format!("MAINPID={pid}\nREADY=1\n"));
    signal(pid, "TERM");
    assert_eq!(receive(), "STOPPING=1\n", "the old process has said nothing of its end");
}

#[test]
fn the_unix_socket_of_the_admin_port_is_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let upstream = Upstream::ok("hello");
    let yaml = format!("management: {{server: {{socket: '{}'}}}}\n{}", path.display(), yaml(&upstream, ""));
    let gateway = Gateway::start(&yaml);
    gateway.hand_over();
    let address = format!("unix:{}", path.display());
    assert_eq!(crate::support::gateway::run(&["health", &address]).0, Some(0));
    let pid = gateway.processes().pop().unwrap();
    signal(pid, "TERM");
    eventually("the file is removed at the end", || !path.exists());
}

#[test]
fn settings_that_need_a_restart_are_compared_with_the_sockets_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.yaml");
    let ports = [free_address().port(), free_address().port()];
    let write = |port: u16| {
        let routes = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]";
        let text = format!(
            "server: {{address: 127.0.0.1, port: {port}, workers: 2}}\naccess-log: {{output: off}}\n{routes}\n"
        );
        fs::write(&path, text).unwrap();
    };
    write(ports[0]);
    let mut command = Command::new(TOLLGATE);
    command.env("MANAGEMENT_SERVER_PORT", "0").arg("--config").arg(&path).arg("--tollgate.config.watch=false");
    let gateway = Gateway::from_command(command);
    let needed = || gateway.admin("/api/config").json()["needs-restart"].clone();
    assert_eq!(needed(), json!([]));
    write(ports[1]);
    gateway.hand_over();
    assert_eq!(gateway.get("/a").status, 200, "it serves the inherited socket");
    assert_eq!(needed(), json!(["server.port"]));
    write(ports[0]);
    signal(gateway.processes().pop().unwrap(), "HUP");
    eventually("the port is again that of the socket", || needed() == json!([]));
}
