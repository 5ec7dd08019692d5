//! IPv4 and IPv6: the address of the gateway, and that of the admin port.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::support::client::get;
use crate::support::eventually;
use crate::support::gateway::{Gateway, command};

const ROUTES: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]";

/// Returns the addresses of clients in the access log after requests to both loopback addresses.
fn clients(server: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let gateway = Gateway::start(&format!("{server}access-log: {{output: '{}'}}\n{ROUTES}", log.display()));
    for ip in [IpAddr::V4(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
        let address = SocketAddr::new(ip, gateway.address.port());
        assert_eq!(get(address, "/x").status, 200, "{address}");
    }
    let lines = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("both are logged", || lines().lines().count() == 2);
    let mut clients: Vec<_> = lines().lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    clients.sort();
    clients
}

#[test]
fn the_default_address_takes_clients_of_ipv4_and_ipv6() {
    for server in ["server: {workers: 1}\n", "server: {workers: 2}\n", "server: {address: '[::]', workers: 1}\n"] {
        assert_eq!(clients(server), ["127.0.0.1", "::1"], "{server}");
    }
}

#[test]
fn an_address_can_be_one_family_localhost_or_in_brackets() {
    for (text, expected) in [
        ("0.0.0.0", "http://0.0.0.0:"),
        ("localhost", "http://127.0.0.1:"),
        ("'::1'", "http://[::1]:"),
        ("'[::1]'", "http://[::1]:"),
    ] {
        let gateway = Gateway::start(&format!("server: {{address: {text}, workers: 1}}\n{ROUTES}"));
        assert!(gateway.logged("listening on").contains(expected), "{text}");
        assert_eq!(gateway.get("/x").status, 200, "{text}");
    }
}

#[test]
fn health_finds_the_admin_port_on_either_loopback_address() {
    for address in ["127.0.0.1", "'::1'", "localhost"] {
        let gateway = Gateway::start(&format!("management.server.address: {address}\n{ROUTES}"));
        let port = gateway.admin.port().to_string();
        let named = format!("localhost:{port}");
        for arguments in [&["health"][..], &["health", &named], &["status"]] {
            let run = || command().args(arguments).env("MANAGEMENT_SERVER_PORT", &port).output().unwrap();
            eventually("the gateway is ready", || run().status.success());
        }
    }
}
