//! TLS to upstreams: trust, client certificates, and log lines about failures.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rustls::version::TLS12;
use tollgate_test_support::Certificates;

use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::secure::{Keys, Server, ServerProtocol, answer};
use crate::support::upstream::{Upstream, read_request};

const BOTH: &[&str] = &["h2", "http/1.1"];

fn route(id: &str, uri: &str, rest: &str) -> String {
    format!("- {{id: {id}, uri: '{uri}', predicates: [Path=/{id}/**]{rest}}}\n")
}

#[test]
fn a_certificate_is_trusted_or_the_log_names_the_reason() {
    let made = Certificates::new();
    let good = Server::echoing(ServerProtocol::tls(Keys::of(&made), BOTH));
    let old = Server::echoing(ServerProtocol::tls_of(Keys::of(&made), BOTH, &[&TLS12], None));
    let asking = Server::echoing(ServerProtocol::tls_of(Keys::of(&made), BOTH, rustls::DEFAULT_VERSIONS, Some(&made)));
    made.sign_for_other_host();
    let elsewhere = Server::echoing(ServerProtocol::tls(Keys::of(&made), BOTH));
    made.sign_expired();
    let expired = Server::echoing(ServerProtocol::tls(Keys::of(&made), BOTH));
    let plain = Upstream::scripted(|stream, _| {
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let (ca, cert, key) = (made.ca(), made.client(), made.client_key());
    let (ca, cert, key) = (ca.display(), cert.display(), key.display());
    let by_ca = format!(", tls: {{ca: {ca}}}");
    let cases = [
        ("good", good.uri("https"), by_ca.clone(), None),
        ("address", format!("https://{}", good.address), by_ca.clone(), None),
        ("metadata", good.uri("https"), format!(", metadata: {{tls: {{ca: {ca}}}}}"), None),
        ("insecure", expired.uri("https"), ", tls: {insecure: true}".to_owned(), None),
        ("renamed", elsewhere.uri("https"), format!(", tls: {{ca: {ca}, server-name: elsewhere.example}}"), None),
        ("shown", asking.uri("https"), format!(", tls: {{ca: {ca}, cert: {cert}, key: {key}}}"), None),
        ("tls12", old.uri("https"), by_ca.clone(), None),
        ("unknown", good.uri("https"), String::new(), Some("not signed by a trusted CA")),
        ("expired", expired.uri("https"), by_ca.clone(), Some("has expired")),
        ("misnamed", elsewhere.uri("https"), by_ca.clone(), Some("is for another name")),
        ("too-old", old.uri("https"), format!(", tls: {{ca: {ca}, min-version: 1.3}}"), Some("ProtocolVersion")),
        ("unshown", asking.uri("https"), by_ca.clone(), Some("upstream http/2 connection lost")),
        ("no-tls", format!("https://{}", plain.address), by_ca, Some("does not use TLS")),
    ];
    let routes: String = cases.iter().map(|(id, uri, tls, _)| route(id, uri, tls)).collect();
    let gateway = Gateway::start(&format!("routes:\n{routes}"));
    for (id, _, _, wrong) in &cases {
        let answer = gateway.connect().request("POST", &format!("/{id}/x"), &[], b"once");
        match wrong {
            None => assert_eq!(answer.status, 200, "{id}: {}", gateway.log()),
            Some(words) => {
                assert_eq!(answer.status, 502, "{id}");
                assert!(!answer.text().contains("ertificate"), "nothing about the inside: {}", answer.text());
                // The log line is written after the response.
                assert!(gateway.logged(words).contains(" WARN "), "{id}");
            }
        }
    }
    assert_eq!(
        good.names(),
        [Some("localhost".to_owned()), None, Some("localhost".to_owned())][..2],
        "SNI is for names"
    );
    assert_eq!(elsewhere.names(), [Some("elsewhere.example".to_owned())]);
}

#[test]
fn connections_are_kept_and_sessions_resumed() {
    let made = Certificates::new();
    let server =
        Server::echoing(ServerProtocol { goes_after: 3, ..ServerProtocol::tls(Keys::of(&made), &["http/1.1"]) });
    let gateway = Gateway::start(&format!(
        "httpclient: {{tls: {{ca: {}}}}}\nroutes:\n{}",
        made.ca().display(),
        route("a", &server.uri("https"), "")
    ));
    let mut client = gateway.connect();
    for n in 0..6 {
        assert_eq!(client.request("GET", "/a/x", &[], b"").status, 200, "{n}");
    }
    assert_eq!((server.connections(), server.resumed()), (2, 1));
}

#[test]
fn a_listed_self_signed_certificate_of_openssl_is_trusted() {
    let made = Certificates::new();
    let (file, key) = made.self_signed();
    let server = Server::echoing(ServerProtocol::tls(Keys::read(&file, &key), BOTH));
    let by_address = route("address", &format!("https://{}", server.address), "");
    let gateway = Gateway::start(&format!(
        "spring.cloud.gateway:\n  httpclient.ssl.trusted-x509-certificates: ['file:{}']\n  routes:\n  {}  {by_address}\
         server: {{address: 127.0.0.1, workers: 1}}\n",
        file.display(),
        route("a", &server.uri("https"), "")
    ));
    assert_eq!(gateway.get("/a/x").status, 200, "{}", gateway.log());
    assert_eq!(gateway.get("/address/x").status, 502, "its name must fit all the same");
}

#[test]
fn certificates_of_the_system_trust_store_are_trusted() {
    let made = Certificates::new();
    let server = Server::echoing(ServerProtocol::tls(Keys::of(&made), BOTH));
    let yaml = format!("routes:\n{}", route("a", &server.uri("https"), ""));
    let ca = made.ca();
    let gateway = Gateway::start_with(&yaml, &[("SSL_CERT_FILE", ca.to_str().unwrap())]);
    assert_eq!(gateway.get("/a/x").status, 200, "{}", gateway.log());
}

#[test]
fn a_reload_reads_certificates_again() {
    let (made, other) = (Certificates::new(), Certificates::new());
    let server = Server::echoing(ServerProtocol::tls(Keys::of(&other), BOTH));
    let ca = made.folder().join("trusted.pem");
    std::fs::copy(made.ca(), &ca).unwrap();
    let yaml =
        format!("httpclient: {{tls: {{ca: {}}}}}\nroutes:\n{}", ca.display(), route("a", &server.uri("https"), ""));
    let gateway = Gateway::start(&yaml);
    assert_eq!(gateway.get("/a/x").status, 502);
    std::fs::copy(other.ca(), &ca).unwrap();
    gateway.reload(&yaml);
    crate::support::eventually("the worker has the new certificates", || gateway.get("/a/x").status == 200);
    std::fs::write(&ca, "nothing").unwrap();
    gateway.signal("HUP");
    gateway.logged("holds no certificate");
    assert_eq!(gateway.get("/a/x").status, 200, "serving processes keep serving");
}

#[test]
fn a_hanging_tls_handshake_with_an_upstream_becomes_504() {
    let silent = Upstream::scripted(|stream, _| {
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let gateway = Gateway::start(&format!(
        "spring.cloud.gateway:\n  httpclient.ssl.handshake-timeout: 200ms\n  routes:\n  {}\
         server: {{address: 127.0.0.1, workers: 1}}\n",
        route("a", &format!("https://{}", silent.address), "")
    ));
    let start = Instant::now();
    assert_eq!(gateway.get("/a/x").status, 504);
    assert!((Duration::from_millis(190)..Duration::from_secs(10)).contains(&start.elapsed()));
}

#[test]
fn a_websocket_is_tunnelled_over_tls_and_http_1_1() {
    let made = Certificates::new();
    let server = Server::start(ServerProtocol::tls(Keys::of(&made), BOTH), |mut request| {
        Box::pin(async move {
            if request.headers().get("upgrade").is_none() {
                return answer("ordinary");
            }
            tokio::spawn(async move {
                let upgraded = hyper::upgrade::on(&mut request).await.unwrap();
                let mut io = hyper_util::rt::TokioIo::new(upgraded);
                let (mut read, mut write) = tokio::io::split(&mut io);
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
            let mut switching = answer("");
            *switching.status_mut() = http::StatusCode::SWITCHING_PROTOCOLS;
            switching.headers_mut().insert("upgrade", "websocket".parse().unwrap());
            switching.headers_mut().insert("connection", "upgrade".parse().unwrap());
            switching
        })
    });
    let tls = format!(", tls: {{ca: {}}}", made.ca().display());
    let gateway = Gateway::start(&format!(
        "routes:\n{}{}",
        route("wss", &server.uri("wss"), &tls),
        route("https", &server.uri("https"), &tls)
    ));
    assert_eq!(gateway.get("/https/x").text(), "ordinary");
    for path in ["/wss/chat", "/https/chat"] {
        let mut client: Connection = gateway.connect();
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        ));
        assert_eq!(client.response().unwrap().status, 101, "{path}: {}", gateway.log());
        client.send("through the tunnel");
        assert_eq!(client.take(18), b"through the tunnel", "{path}");
    }
    assert_eq!(server.protocols(), ["h2", "http/1.1", "http/1.1"]);
}

#[test]
fn upstream_connections_use_the_proxy_except_for_excluded_hosts() {
    let made = Certificates::new();
    let server = Server::echoing(ServerProtocol::tls(Keys::of(&made), BOTH));
    let near = Upstream::ok("near");
    let target = server.address;
    // Only the proxy can resolve `orders.internal`.
    let proxy = Upstream::scripted(move |stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let mut upstream = std::net::TcpStream::connect(target).unwrap();
        stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
        let (mut back, mut from) = (stream.try_clone().unwrap(), upstream.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut from, &mut back));
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            if upstream.write_all(&piece[..read]).is_err() {
                return;
            }
        }
    });
    let gateway = Gateway::start(&format!(
        "httpclient: {{proxy: {{host: 127.0.0.1, port: {}, username: me, password: pw, non-proxy-hosts-pattern: '127\\..*'}}, \
         tls: {{ca: {}, server-name: localhost}}}}\nroutes:\n{}{}",
        proxy.address.port(),
        made.ca().display(),
        route("far", "https://orders.internal", ""),
        route("near", &near.uri(), "")
    ));
    let answer = gateway.get("/far/x");
    assert_eq!(answer.text(), "HTTP/2.0 GET https://orders.internal/far/x host=-", "{}", gateway.log());
    assert_eq!(gateway.get("/near/x").text(), "near");
    let asked = proxy.requests();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].line, "CONNECT orders.internal:443 HTTP/1.1");
    assert_eq!(asked[0].header("proxy-authorization"), Some("Basic bWU6cHc="));
}
