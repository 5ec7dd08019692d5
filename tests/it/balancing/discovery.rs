//! Endpoints from DNS.

use std::net::Ipv4Addr;

use super::*;
use crate::support::dns::{Dns, Record};

fn address(last: u8) -> Record {
    Record::Address(Ipv4Addr::new(127, 0, 0, last).into())
}

/// Starts servers at 127.0.0.2 and following, all at one port.
fn neighbours(names: &[&'static str]) -> (u16, Vec<Upstream>) {
    let first = TcpListener::bind("127.0.0.2:0").unwrap();
    let port = first.local_addr().unwrap().port();
    let others =
        (3..).take(names.len() - 1).map(|last| TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), port)).unwrap());
    let listeners = std::iter::once(first).chain(others.collect::<Vec<_>>());
    (port, listeners.zip(names).map(|(listener, name)| named_at(listener, name)).collect())
}

#[test]
fn endpoints_follow_dns() {
    let dns = Dns::start();
    let (port, _servers) = neighbours(&["two", "three"]);
    let (one, spare) = (named("one"), named("spare"));
    dns.set("orders.internal", [address(2)]);
    dns.set("node1.internal", [address(1)]);
    dns.set("node2.internal", [address(1)]);
    dns.set(
        "_http._tcp.shop.internal",
        [
            Record::Service(20, 0, spare.address.port(), "node2.internal"),
            Record::Service(10, 5, one.address.port(), "node1.internal"),
        ],
    );
    let refresh = "refresh: 50ms";
    let text = yaml(
        &[
            ("orders", format!("balance: round-robin, dns: {{name: orders.internal, port: {port}, {refresh}}}")),
            ("shop", format!("dns: {{name: _http._tcp.shop.internal, type: SRV, {refresh}}}")),
            ("missing", format!("dns: {{name: missing.internal, {refresh}}}")),
        ],
        &format!("server: {{address: 127.0.0.1, workers: 1}}\ndns: {{server: '{}', timeout: 200ms}}", dns.address),
    );
    let gateway = Gateway::start(&text);
    assert_eq!(shares(&gateway, "/orders/x", 4, &[]), [share("two", 4)].into(), "known before the first request");
    let host = gateway.get("/orders/x").header("x-host").unwrap().to_owned();
    assert_eq!(host, format!("orders.internal:{port}"), "requested by its name");
    assert_eq!(shares(&gateway, "/shop/x", 4, &[]), [share("one", 4)].into(), "the lower priority first");
    assert_eq!(gateway.get("/missing/x").status, 503);
    gateway.logged("dns lookup failed; known endpoints are kept");
    dns.set("orders.internal", [address(2), address(3)]);
    eventually("the new one is used", || shares(&gateway, "/orders/x", 4, &[]).len() == 2);
    dns.set("orders.internal", [address(3)]);
    eventually("the old one is left", || shares(&gateway, "/orders/x", 4, &[]) == [share("three", 4)].into());
    // Neither a silent DNS server nor a removed name removes known endpoints.
    let failures = || gateway.metric("tollgate_upstream_failed_lookups_total", &["\"orders\""]);
    dns.set("orders.internal", []);
    eventually("the name is gone", || failures() >= 1.0);
    assert_eq!(shares(&gateway, "/orders/x", 4, &[]), [share("three", 4)].into());
    dns.set("orders.internal", [address(2)]);
    eventually("it is back", || shares(&gateway, "/orders/x", 4, &[]) == [share("two", 4)].into());
    gateway.logged("dns lookup succeeded again");
    dns.set("_http._tcp.shop.internal", [Record::Service(0, 0, spare.address.port(), "node2.internal")]);
    eventually("services move", || shares(&gateway, "/shop/x", 2, &[]) == [share("spare", 2)].into());
}
