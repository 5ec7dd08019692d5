//! Instances beside another one that fail or end before they serve.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};

use super::{Instances, Starting, asking, beside, fails};
use crate::support::clients::Clients;
use crate::support::eventually;
use crate::support::gateway::Gateway;

#[test]
fn an_instance_that_fails_beside_another_one_resets_no_connection() {
    let instances = Instances::new(1_000_000);
    let alone = instances.yaml.replace("memory:", "# memory:");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken_port = taken.local_addr().unwrap().port().to_string();
    let admin_port = [("MANAGEMENT_SERVER_PORT", taken_port.as_str())];
    let socket = instances.folder.path().join("taken.sock");
    let _taken_socket = UnixListener::bind(&socket).unwrap();
    let registry = TcpListener::bind("127.0.0.1:0").unwrap();
    for yaml in [&alone, &instances.yaml] {
        let gateway = Gateway::start(yaml);
        let clients = Clients::start(gateway.address, 2);
        let with = |section: &str| format!("{section}\n{yaml}");
        let admin_socket = format!("management: {{server: {{socket: '{}'}}}}", socket.display());
        let no_certificate =
            yaml.replace("workers: 2", "workers: 2, ssl: {certificate: /none.pem, certificate-private-key: /none.key}");
        for (message, yaml, environment) in [
            ("management.server.port", yaml.clone(), &admin_port[..]),
            ("management.server.port", asking(yaml, &registry), &admin_port[..]),
            ("management.server.socket", with(&admin_socket), &[]),
            ("cannot open the access log", with("access-log: {output: /none/access.log}"), &[]),
            ("/none.pem", no_certificate, &[]),
        ] {
            clients.more(5);
            let messages = fails(&gateway, &yaml, environment);
            assert!(messages.contains(message), "{messages}");
        }
        let asked = TcpListener::bind("127.0.0.1:0").unwrap();
        let killed = Starting::beside(&gateway, &asking(yaml, &asked), &[]);
        drop(asked.accept().unwrap());
        clients.more(20);
        drop(killed);
        if yaml == &instances.yaml {
            let emptied = yaml.split("routes:").next().unwrap();
            assert!(fails(&gateway, emptied, &[]).contains("not taking over: no routes"));
            let killed = Starting::beside(&gateway, yaml, &[]);
            // It is ready then: clients learn that connections end.
            eventually("it takes over", || gateway.get("/a").header("connection") == Some("close"));
            clients.more(20);
            drop(killed);
        }
        clients.more(20);
        println!("{} responses beside instances that failed", clients.stop());
        assert!(!gateway.log().contains("handed over:"), "{}", gateway.log());
    }
}

#[test]
fn an_instance_beside_one_that_does_not_hand_over_ends_with_advice() {
    let instances = Instances::new(5);
    // Its time is too short for the announcement to clients, which is a part of the handover.
    let gateway = Gateway::start(&instances.yaml.replace("handover-timeout: 3s", "handover-timeout: 50ms"));
    let messages = fails(&gateway, &instances.yaml.replace("handover-timeout: 3s", "handover-timeout: 500ms"), &[]);
    assert!(messages.contains("the process beside this one has not handed over and goes on"), "{messages}");
    eventually("it goes on", || gateway.get("/a").header("connection").is_none());
    assert_eq!(gateway.admin("/health/ready").status, 200);
}

#[test]
fn files_that_cannot_be_used_beside_the_state_file_stop_no_start() {
    let instances = Instances::new(100);
    let mut killed = Gateway::start(&instances.yaml);
    let socket = instances.socket(&killed);
    eventually("others can ask", || socket.exists());
    for _ in 0..2 {
        killed.signal("KILL");
        killed.wait();
        let next = beside(&killed, &instances.yaml);
        assert_eq!(next.get("/a").status, 200);
        eventually("others can ask it", || UnixStream::connect(&socket).is_ok());
        killed = next;
    }
    killed.signal("KILL");
    killed.wait();
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "no socket").unwrap();
    let next = beside(&killed, &instances.yaml);
    next.logged("no other process can take over");
    assert_eq!(next.get("/a").status, 200);
    assert_eq!(fs::read_to_string(&socket).unwrap(), "no socket");
    let folder = instances.folder.path().display().to_string();
    let without_folder = Gateway::start(&instances.yaml.replace(&folder, "/none"));
    without_folder.logged("the file beside `memory.state-file` cannot be opened");
    assert_eq!(without_folder.get("/a").status, 200);
}
