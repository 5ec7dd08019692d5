//! Headers that are late, missing or broken.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{BALANCER, DIRECT, IPV4, SIGNATURE, binary, get, line, open_from, proxied, received, yaml};
use crate::support::eventually;
use crate::support::gateway::Gateway;

/// Returns the number of connections that were closed for this reason.
fn failed(gateway: &Gateway, reason: &str) -> f64 {
    gateway.metric("tollgate_failed_proxy_headers_total", &[&format!("reason=\"{reason}\"")])
}

/// Returns the number of connections that were closed for their header.
fn all_failed(gateway: &Gateway) -> f64 {
    gateway.metric("tollgate_failed_proxy_headers_total", &[])
}

#[test]
fn a_broken_header_closes_the_connection_without_a_response() {
    let gateway = Gateway::start(&yaml(", timeout: 300ms", ""));
    let checksum = binary(0x21, 0x11, &[IPV4, b"\x03\0\x04\0\0\0\0"].concat());
    let longest = [SIGNATURE, &[0x21, 0x11, 0xFF, 0xFF]].concat();
    let cases: [(&str, &[u8]); 9] = [
        ("missing", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("missing", b"\x16\x03\x01\x02\0"),
        ("malformed", b"PROXY TCP4 192.0.2.7\r\n"),
        ("malformed", &[SIGNATURE, &[0x31, 0x11, 0, 0]].concat()),
        ("checksum", &checksum),
        ("too-long", &[b"PROXY ", &[b'x'; 101][..]].concat()),
        ("too-long", &longest),
        ("timeout", b"PROXY TCP4 192.0.2.7"),
        ("timeout", b""),
    ];
    for (reason, bytes) in cases {
        let before = failed(&gateway, reason);
        let start = Instant::now();
        let mut client = proxied(gateway.address, bytes);
        assert_eq!(client.rest(), b"", "{reason}");
        assert_eq!(failed(&gateway, reason), before + 1.0, "{reason}");
        assert!(reason != "timeout" || start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
    }
    let lines = gateway.log().lines().filter(|line| line.contains("no valid PROXY header")).count();
    assert_eq!(lines, 1, "one in 10 s for each load balancer");
    gateway.logged("peer=127.0.0.9 reason=\"missing\" count=1");
    assert_eq!(received(&get(&mut proxied(gateway.address, line("192.0.2.7"))), "x-forwarded-for"), "192.0.2.7");
}

#[test]
fn a_connection_that_ends_within_its_header_is_malformed_and_one_without_a_byte_is_not() {
    let gateway = Gateway::start(&yaml(", timeout: 60s", ""));
    for bytes in ["", "PROXY TCP4", "\r\n\r\n"] {
        let mut client = proxied(gateway.address, bytes);
        client.finish();
        assert_eq!(client.rest(), b"", "{bytes:?}");
    }
    assert_eq!(failed(&gateway, "malformed"), 2.0);
    assert_eq!(all_failed(&gateway), 2.0, "a probe that connects and closes is no failure");
}

#[test]
fn an_optional_header_may_be_missing() {
    let gateway = Gateway::start(&yaml(", mode: optional, timeout: 60s", "trusted-proxies: [127.0.0.9]\n"));
    let forwarded = |header: &[u8]| received(&get(&mut proxied(gateway.address, header)), "x-forwarded-for");
    assert_eq!(forwarded(line("192.0.2.7").as_bytes()), "192.0.2.7");
    assert_eq!(forwarded(b""), "127.0.0.9");
    // A method with the first letter of the header, in two packets.
    let mut client = proxied(gateway.address, "P");
    sleep(Duration::from_millis(20));
    client.send("UT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(received(&client.response().unwrap(), "x-forwarded-for"), "127.0.0.9");
    assert_eq!(all_failed(&gateway), 0.0);
}

#[test]
fn silence_is_no_optional_header_and_the_start_of_one_is() {
    let gateway = Gateway::start(&yaml(", mode: optional, timeout: 100ms", "trusted-proxies: [127.0.0.9]\n"));
    let [mut silent, mut late] = [(); 2].map(|()| open_from(BALANCER, gateway.address));
    let opened = || gateway.metric("tollgate_client_connections_opened_total", &[]);
    eventually("both are served without a header", || opened() >= 2.0);
    assert_eq!(received(&get(&mut silent), "x-forwarded-for"), "127.0.0.9");
    late.send(line("192.0.2.7"));
    assert_eq!(late.response().unwrap().status, 400, "the header is read as a request");
    assert_eq!(all_failed(&gateway), 0.0);
    assert_eq!(proxied(gateway.address, "PROXY TCP4").rest(), b"");
    assert_eq!(failed(&gateway, "timeout"), 1.0);
}

#[test]
fn connections_of_other_addresses_need_no_header() {
    let gateway = Gateway::start(&yaml(", timeout: 1ms", ""));
    let mut client = open_from(DIRECT, gateway.address);
    sleep(Duration::from_millis(50));
    assert_eq!(get(&mut client).status, 200);
}

#[test]
fn a_full_gateway_closes_a_connection_that_waits_for_its_header() {
    let limits = "workers: 1, max-connections: 1, max-connections-per-client: 1";
    let gateway = Gateway::start(&yaml(", timeout: 60s", "").replace("workers: 1", limits));
    let mut waiting = proxied(gateway.address, "PROXY TCP4 ");
    let mut next = open_from(DIRECT, gateway.address);
    assert_eq!(get(&mut next).status, 200);
    assert!(waiting.is_closed());
    assert_eq!(all_failed(&gateway), 0.0);
}
