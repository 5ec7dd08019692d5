//! WebSockets and other upgrades: the tunnel opens after the upstream's 101, and not before.

use std::io::{Read, Write};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request, response};
use crate::support::{PATIENCE, eventually};

const ASK: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: chat\r\n\r\n";
const ACCEPT: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: chat\r\n\r\n";

/// Starts an upstream that accepts every upgrade, sends `hello` with the 101, and echoes in upper case.
fn shouting() -> Upstream {
    Upstream::scripted(|stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let _ = stream.write_all(&[ACCEPT, b"hello"].concat());
        let mut piece = [0; 1000];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            if stream.write_all(&piece[..read].to_ascii_uppercase()).is_err() {
                return;
            }
        }
        let _ = stream.write_all(b"bye");
    })
}

#[track_caller]
fn upgraded(client: &mut Connection) {
    client.send(ASK);
    let answer = client.response().unwrap();
    assert_eq!(answer.status, 101);
    assert!(answer.header("upgrade").unwrap().eq_ignore_ascii_case("websocket"));
    assert!(answer.header("connection").unwrap().eq_ignore_ascii_case("upgrade"));
    assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(answer.header("sec-websocket-protocol"), Some("chat"));
}

#[test]
fn a_tunnel_forwards_all_bytes_in_both_directions() {
    let upstream = shouting();
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    upgraded(&mut client);
    assert_eq!(client.take(5), b"hello", "sent right behind the 101");
    // A request line of these bytes would be changed.
    for bytes in [&b"\x81?\"<>\xFF"[..], b"GET /?\"\xFF\" HTTP/1.1\r\n\r\n"] {
        client.send(bytes);
        assert_eq!(client.take(bytes.len()), bytes, "no request any more");
    }
    client.finish();
    assert_eq!(client.rest(), b"bye", "one side may end before the other");
    let requests = upstream.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].header("connection").unwrap().eq_ignore_ascii_case("upgrade"));
    assert_eq!(requests[0].header("upgrade"), Some("websocket"));
    assert_eq!(requests[0].header("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
    assert_eq!(requests[0].header("sec-websocket-protocol"), Some("chat"));
}

#[test]
fn an_upgrade_carries_no_te_that_connection_does_not_name() {
    let upstream = shouting();
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    client.send(ASK.replacen("\r\n", "\r\nTE: trailers\r\n", 1));
    assert_eq!(client.response().unwrap().status, 101);
    let request = &upstream.requests()[0];
    assert_eq!((request.header("te"), request.header("connection")), (None, Some("upgrade")));
}

#[test]
fn bytes_sent_before_the_101_enter_the_tunnel() {
    let upstream = shouting();
    let gateway = Gateway::to(&upstream.uri());
    for (query, early) in [("", "early".to_owned()), ("?q=\"\"\"\"\"", "early".repeat(4000))] {
        let mut client = gateway.connect();
        client.send(ASK.replacen("/ws", &format!("/ws{query}"), 1) + &early);
        assert_eq!((client.response().unwrap().status, &*client.take(5)), (101, &b"hello"[..]));
        assert!(client.take(early.len()) == early.to_ascii_uppercase().as_bytes(), "bytes are lost or changed");
    }
}

#[test]
fn a_refused_upgrade_leaves_an_ordinary_connection() {
    let upstream = Upstream::start(|request| response(200, &[], request.target().as_bytes()));
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    // The second request follows the first at the position of a tunnel's first bytes.
    client.send([ASK, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    assert_eq!(client.response().unwrap().text(), "/ws");
    assert_eq!(client.response().unwrap().text(), "/next");
    assert_eq!(client.request("GET", "/third", &[], b"").text(), "/third");
    assert_eq!(upstream.targets(), ["/ws", "/next", "/third"]);
    assert_eq!(upstream.requests()[1].header("upgrade"), None);
}

#[test]
fn h2c_is_never_requested_from_an_upstream() {
    let upstream = Upstream::ok("ordinary");
    let gateway = Gateway::to(&upstream.uri());
    let single = ["h2c", "H2C", "h2", "HTTP/2.0", "h2c/1.0", "\"h2c\"", "TLS/1.2", "chat"];
    let lists = single.iter().flat_map(|protocol| [format!("websocket, {protocol}"), format!("{protocol}, websocket")]);
    for protocol in single.iter().map(|protocol| (*protocol).to_owned()).chain(lists) {
        let fields = [
            ("Connection", "Upgrade, HTTP2-Settings"),
            ("Upgrade", protocol.as_str()),
            ("HTTP2-Settings", "AAMAAABkAAQAAP__"),
        ];
        assert_eq!(gateway.connect().request("GET", "/x", &fields, b"").text(), "ordinary", "{protocol}");
    }
    for request in upstream.requests() {
        assert_eq!(request.header("upgrade"), None, "{request:?}");
        assert_eq!(request.header("http2-settings"), None, "{request:?}");
    }
}

#[test]
fn protocols_of_the_setting_are_tunnelled_and_no_others() {
    let upstream = shouting();
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, upgrade-protocols: [chat, mqtt/5]}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    for protocol in ["chat", "MQTT/5", "websocket, chat"] {
        let mut client = gateway.connect();
        client.send(ASK.replace("websocket", protocol));
        assert_eq!(client.response().unwrap().status, 101, "{protocol}");
        assert_eq!(client.take(5), b"hello");
    }
    for protocol in ["mqtt", "chat/2", "chat, h2c"] {
        let mut client = gateway.connect();
        client.send(ASK.replace("websocket", protocol));
        assert_eq!(client.response().unwrap().status, 502, "{protocol}: a 101 that was not requested");
    }
}

#[test]
fn an_upgrade_not_listed_in_connection_is_ignored() {
    let upstream = Upstream::ok("ordinary");
    let gateway = Gateway::to(&upstream.uri());
    assert_eq!(gateway.connect().request("GET", "/x", &[("Upgrade", "websocket")], b"").text(), "ordinary");
    assert_eq!(upstream.requests()[0].header("upgrade"), None);
}

#[test]
fn an_unrequested_101_opens_no_tunnel() {
    for trusted in ["", "trusted-proxies: [127.0.0.1]\n"] {
        let upstream = Upstream::scripted(|stream, seen| {
            let Some(request) = read_request(stream) else { return };
            seen(request);
            let _ = stream.write_all(&[ACCEPT, b"inside"].concat());
            let _ = stream.read(&mut [0]);
        });
        let gateway =
            Gateway::start(&format!("{trusted}routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]", upstream.uri()));
        for fields in [&[][..], &[("Connection", "Upgrade"), ("Upgrade", "h2c")]] {
            let mut client = gateway.connect();
            let answer = client.request("POST", "/x", fields, b"body");
            assert_eq!(answer.status, 502, "{fields:?}");
            assert!(!answer.text().contains("inside"));
        }
    }
}

#[test]
fn closing_either_side_closes_the_tunnel() {
    let (ended, ending) = channel();
    let upstream = Upstream::scripted(move |stream, seen| {
        let Some(request) = read_request(stream) else { return };
        let leaves = request.header("x-leave").is_some();
        seen(request);
        let _ = stream.write_all(ACCEPT);
        if !leaves {
            let _ = ended.send(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
        }
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    upgraded(&mut client);
    drop(client);
    assert!(ending.recv_timeout(PATIENCE).unwrap());
    let mut client = gateway.connect();
    client.send(ASK.replace("\r\n\r\n", "\r\nX-Leave: now\r\n\r\n"));
    assert_eq!(client.response().unwrap().status, 101);
    assert!(client.is_closed());
    eventually("the tunnel ends although the client goes on", || client.try_send("more").is_err());
}

#[test]
fn a_silent_tunnel_outlives_every_timeout() {
    let upstream = shouting();
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, idle-timeout: 500ms, header-timeout: 500ms, body-timeout: 500ms, \
         write-timeout: 500ms}}\nhttpclient: {{response-timeout: 500ms, read-timeout: 500ms}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut client = gateway.connect();
    upgraded(&mut client);
    assert_eq!(client.take(5), b"hello");
    // Only waiting can show it.
    std::thread::sleep(Duration::from_millis(1500));
    client.send("still");
    assert_eq!(client.take(5), b"STILL");
}

#[test]
fn a_tunnel_without_traffic_ends_at_its_idle_limit() {
    let upstream = shouting();
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, tunnel-idle-timeout: 300ms}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut client = gateway.connect();
    upgraded(&mut client);
    assert_eq!(client.take(5), b"hello");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(60));
        client.send("still");
        assert_eq!(client.take(5), b"STILL", "it has traffic");
    }
    let start = Instant::now();
    assert!(client.is_closed());
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
    eventually("the connection is gone", || gateway.metric("tollgate_client_connections{", &[]) == 0.0);
}

#[test]
fn a_tunnel_with_one_closed_direction_ends_at_its_idle_limit() {
    let upstream = Upstream::scripted(|stream, _| {
        let Some(_) = read_request(stream) else { return };
        let _ = stream.write_all(ACCEPT);
        let _ = std::io::copy(stream, &mut std::io::sink());
        // Its own direction stays open.
        std::thread::sleep(PATIENCE);
    });
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, tunnel-idle-timeout: 300ms}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut client = gateway.connect();
    upgraded(&mut client);
    let start = Instant::now();
    client.finish();
    assert!(client.is_closed());
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
}

/// Timers of the kernel's TCP sockets with these local and remote addresses (proc_pid_net(5)): `2` is that of keepalive.
#[cfg(target_os = "linux")]
fn kernel_timer(local: std::net::SocketAddr, remote: std::net::SocketAddr) -> Option<char> {
    let ports = [local, remote].map(|address| format!(":{:04X}", address.port()));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let fields = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let socket = fields.into_iter().find(|fields| fields[1].ends_with(&ports[0]) && fields[2].ends_with(&ports[1]))?;
    socket[5].chars().nth(1)
}

#[cfg(target_os = "linux")]
#[test]
fn silent_clients_are_probed_by_tcp_keepalive() {
    let upstream = shouting();
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    upgraded(&mut client);
    let admin = gateway.connect_admin();
    for (socket, address) in [(client.stream(), gateway.address), (admin.stream(), gateway.admin)] {
        let remote = socket.local_addr().unwrap();
        eventually("the keepalive timer runs", || kernel_timer(address, remote) == Some('2'));
    }
}

#[test]
fn a_websocket_is_rate_limited_like_any_request() {
    let upstream = shouting();
    let gateway = Gateway::filtering(
        &upstream.uri(),
        "[StripPrefix=0, {name: RequestRateLimiter, args: {replenish-rate: 1, burst-capacity: 60, \
         requested-tokens: 60, key-resolver: ip}}]",
    );
    let mut first = gateway.connect();
    upgraded(&mut first);
    let mut second = gateway.connect();
    second.send([ASK, "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
    assert_eq!(second.response().unwrap().status, 429);
    assert_eq!(second.response().unwrap().status, 429, "an ordinary connection, and its next request");
    assert_eq!(first.take(5), b"hello");
    first.send("on");
    assert_eq!(first.take(2), b"ON");
    assert_eq!(upstream.requests().len(), 1);
}
