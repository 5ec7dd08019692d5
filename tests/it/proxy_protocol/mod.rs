//! `server.proxy-protocol`: clients that a load balancer names in a header before their first byte.

mod attacks;
mod balancer;
mod failures;

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

use crate::access_log::lines;
use crate::http2::raw::{DATA, END_STREAM, HEADERS, OK, ORDINARY, Raw};
use crate::support::client::{Connection, Response};
use crate::support::eventually;
use crate::support::gateway::Gateway;

/// Address of the load balancer, which is trusted.
pub(crate) const BALANCER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// Another address.
const DIRECT: Ipv4Addr = Ipv4Addr::LOCALHOST;

/// Start of a header of version 2.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Addresses of version 2: 192.0.2.7:4711 and 10.0.0.1:443.
const IPV4: &[u8] = &[192, 0, 2, 7, 10, 0, 0, 1, 0x12, 0x67, 0x01, 0xBB];

pub(crate) const ROUTES: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";

/// Returns a configuration that trusts the load balancer; `more` are further keys of the section, and `rest` of the file.
pub(crate) fn yaml(more: &str, rest: &str) -> String {
    format!(
        "server: {{address: 127.0.0.1, workers: 1, proxy-protocol: {{trusted: [{BALANCER}]{more}}}}}\n{ROUTES}{rest}"
    )
}

/// Opens a connection from `source`.
fn open_from(source: Ipv4Addr, address: SocketAddr) -> Connection {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
    socket.connect(&address.into()).unwrap();
    Connection::of(socket.into())
}

/// Opens a connection of the load balancer, and sends `header` on it.
pub(crate) fn proxied(address: SocketAddr, header: impl AsRef<[u8]>) -> Connection {
    let mut client = open_from(BALANCER, address);
    client.send(header);
    client
}

/// Returns a header of version 1 for a client.
pub(crate) fn line(client: &str) -> String {
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    let local = if client.contains(':') { "::1" } else { "10.0.0.1" };
    format!("PROXY {family} {client} {local} 4711 443\r\n")
}

/// Returns a header of version 2.
fn binary(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).unwrap();
    [SIGNATURE, &[command, family], &length.to_be_bytes(), body].concat()
}

/// Returns a header field of the request as the upstream received it; empty if absent.
pub(crate) fn received(response: &Response, field: &str) -> String {
    response.json()["headers"][field].as_str().unwrap_or_default().to_owned()
}

fn get(client: &mut Connection) -> Response {
    client.request("GET", "/x", &[], b"")
}

#[test]
fn the_client_of_the_header_is_forwarded_and_its_own_fields_are_dropped() {
    let gateway = Gateway::start(&yaml("", ""));
    let ipv6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let ipv6 = [&ipv6[..], &[0; 16], &[0x12, 0x67, 0x01, 0xBB]].concat();
    let mut mapped = ipv6.clone();
    mapped[..16].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7]);
    for (header, client, node) in [
        (line("192.0.2.7").into_bytes(), "192.0.2.7", "192.0.2.7:4711"),
        (line("2001:db8::7").into_bytes(), "2001:db8::7", "[2001:db8::7]:4711"),
        (line("::ffff:192.0.2.7").into_bytes(), "192.0.2.7", "192.0.2.7:4711"),
        (binary(0x21, 0x11, IPV4), "192.0.2.7", "192.0.2.7:4711"),
        (binary(0x21, 0x21, &ipv6), "2001:db8::7", "[2001:db8::7]:4711"),
        (binary(0x21, 0x21, &mapped), "192.0.2.7", "192.0.2.7:4711"),
    ] {
        let mut client_connection = proxied(gateway.address, &header);
        let forged = [("X-Forwarded-For", "10.1.1.1"), ("Forwarded", "for=10.1.1.1"), ("X-Forwarded-Prefix", "/a")];
        for pause in [0, 150] {
            // The second request comes when the connection is parked.
            std::thread::sleep(std::time::Duration::from_millis(pause));
            let response = client_connection.request("GET", "/x", &forged, b"");
            assert_eq!(received(&response, "x-forwarded-for"), client);
            assert_eq!(received(&response, "x-forwarded-proto"), "http");
            assert_eq!(received(&response, "x-forwarded-prefix"), "");
            let forwarded = received(&response, "forwarded");
            assert!(forwarded.ends_with(&format!(";for=\"{node}\"")) && !forwarded.contains("10.1.1.1"), "{forwarded}");
        }
    }
}

#[test]
fn fields_of_a_client_in_trusted_proxies_are_kept_and_extended() {
    let gateway = Gateway::start(&yaml("", "trusted-proxies: [192.0.2.0/24]\n"));
    let forwarded = |client: &str| {
        let mut client = proxied(gateway.address, line(client));
        received(&client.request("GET", "/x", &[("X-Forwarded-For", "203.0.113.9")], b""), "x-forwarded-for")
    };
    assert_eq!(forwarded("192.0.2.7"), "203.0.113.9,192.0.2.7");
    assert_eq!(forwarded("198.51.100.7"), "198.51.100.7");
}

#[test]
fn the_removed_prefix_of_a_path_is_forwarded() {
    let routes = "routes: [{id: a, uri: 'echo:', predicates: [Path=/api/**], filters: [StripPrefix=1]}]\n";
    let gateway = Gateway::start(&yaml("", "").replace(ROUTES, routes));
    let response = proxied(gateway.address, line("192.0.2.7")).request("GET", "/api/x", &[], b"");
    assert_eq!(received(&response, "x-forwarded-prefix"), "/api");
}

#[test]
fn limits_predicates_and_the_log_see_the_client_of_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let routes = format!(
        "access-log: {{output: '{}', format: json}}\nroutes:\n\
         - {{id: near, uri: 'no://op', predicates: ['RemoteAddr=192.0.2.0/24'], filters: [SetStatus=202]}}\n\
         - {{id: far, uri: 'echo:', predicates: [Path=/**], filters: [{{name: RequestRateLimiter, args: \
         {{replenish-rate: 1, period: 1h, burst-capacity: 1, key-resolver: ip}}}}]}}\n",
        log.display()
    );
    let gateway = Gateway::start(&yaml("", "").replace(ROUTES, &routes));
    let status = |header: &[u8]| get(&mut proxied(gateway.address, header)).status;
    assert_eq!(status(line("192.0.2.7").as_bytes()), 202);
    for client in ["198.51.100.1", "198.51.100.2"] {
        assert_eq!([status(line(client).as_bytes()), status(line(client).as_bytes())], [200, 429], "{client}");
    }
    let ids = [IPV4, b"\x05\0\x04id-1", b"\xEA\0\x07\x01vpce-1"].concat();
    assert_eq!(status(&binary(0x21, 0x11, &ids)), 202);
    let lines = lines(&log, 6);
    let lines = lines.iter().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let lines: Vec<_> = lines.collect();
    let clients: Vec<_> = lines.iter().map(|line| line["client"].as_str().unwrap()).collect();
    assert_eq!(clients[..3], ["192.0.2.7", "198.51.100.1", "198.51.100.1"]);
    assert!(lines[0].get("unique_id").is_none() && lines[0].get("vpc_endpoint_id").is_none());
    assert_eq!((&lines[5]["unique_id"], &lines[5]["vpc_endpoint_id"]), (&"id-1".into(), &"vpce-1".into()));
}

#[test]
fn connections_and_streams_are_counted_for_the_client_of_the_header() {
    let limited = yaml("", "").replace("workers: 1", "workers: 1, max-connections-per-client: 1");
    let gateway = Gateway::start(&limited);
    let mut clients = ["192.0.2.7", "192.0.2.8"].map(|client| proxied(gateway.address, line(client)));
    for client in &mut clients {
        assert_eq!(get(client).status, 200);
    }
    assert!(proxied(gateway.address, line("192.0.2.7")).is_closed());
    gateway.logged("client=192.0.2.7");
    assert_eq!(gateway.metric("tollgate_client_connections_refused_total", &[]), 1.0);
    drop(clients);
    eventually("the place is free", || {
        proxied(gateway.address, line("192.0.2.7")).try_request("GET", "/x", &[], b"").is_some()
    });
}

#[test]
fn headers_without_a_tcp_client_keep_the_address_of_the_connection() {
    let gateway = Gateway::start(&yaml("", "trusted-proxies: [127.0.0.9]\n"));
    for header in [
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN 192.0.2.7 10.0.0.1 4711 443\r\n".to_vec(),
        binary(0x20, 0x11, IPV4),
        binary(0x20, 0x00, &[]),
        binary(0x21, 0x00, &[]),
        binary(0x21, 0x12, IPV4),
        binary(0x21, 0x31, &[b'/'; 216]),
    ] {
        let response = get(&mut proxied(gateway.address, &header));
        assert_eq!(received(&response, "x-forwarded-for"), "127.0.0.9", "{}", header.escape_ascii());
    }
    // Such an address is no client that the header names.
    let gateway = Gateway::start(&yaml("", ""));
    let response = get(&mut proxied(gateway.address, b"PROXY UNKNOWN\r\n"));
    assert_eq!(received(&response, "x-forwarded-for"), "");
}

#[test]
fn http_2_follows_a_header() {
    let gateway = Gateway::start(&yaml("", ""));
    let mut client = open_from(BALANCER, gateway.address);
    client.send([line("192.0.2.7").as_bytes(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"].concat());
    let mut client = Raw(client);
    client.frame(4, 0, 0, &[]);
    client.headers(1, END_STREAM, &ORDINARY);
    assert_eq!(client.outcome(), (HEADERS, OK));
    let body = String::from_utf8(client.until(&[DATA]).1).unwrap();
    assert!(body.contains("\"x-forwarded-for\": \"192.0.2.7\""), "{body}");
}

#[test]
fn a_reload_applies_to_new_connections() {
    let gateway = Gateway::start(&format!("server: {{address: 127.0.0.1, workers: 1}}\n{ROUTES}"));
    let mut earlier = open_from(BALANCER, gateway.address);
    assert_eq!(get(&mut earlier).status, 200);
    assert_eq!(proxied(gateway.address, line("192.0.2.7")).response().unwrap().status, 400, "not configured");
    gateway.reload(&yaml("", ""));
    let response = get(&mut proxied(gateway.address, line("192.0.2.7")));
    assert_eq!(received(&response, "x-forwarded-for"), "192.0.2.7");
    assert_eq!(get(&mut earlier).status, 200, "an open connection goes on");
    gateway.reload(&yaml(", mode: optional, timeout: 100ms", ""));
    assert_eq!(get(&mut open_from(BALANCER, gateway.address)).status, 200);
}

#[test]
fn a_new_process_that_takes_the_sockets_reads_headers() {
    let gateway = Gateway::start(&yaml("", ""));
    let mut waiting = proxied(gateway.address, "PROXY TCP4 192.0.2.8 ");
    let response = get(&mut proxied(gateway.address, line("192.0.2.7")));
    assert_eq!(received(&response, "x-forwarded-for"), "192.0.2.7");
    // A connection that waits for its header does not hold the old process.
    gateway.hand_over();
    assert!(waiting.is_closed());
    let response = get(&mut proxied(gateway.address, line("192.0.2.8")));
    assert_eq!(received(&response, "x-forwarded-for"), "192.0.2.8");
}
