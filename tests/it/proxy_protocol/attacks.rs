//! Headers of clients that want another address, and headers in hostile pieces.

use std::io::{Read as _, Write as _};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use tollgate_test_support::Certificates;

use super::{BALANCER, DIRECT, IPV4, binary, get, line, open_from, proxied, received, yaml};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::tls::{Tls, client_config, until};

/// Returns headers of both versions that name 192.0.2.7.
fn headers() -> [Vec<u8>; 2] {
    [line("192.0.2.7").into_bytes(), binary(0x21, 0x11, IPV4)]
}

const GET: &[u8] = b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn a_header_of_another_address_is_a_bad_request() {
    let gateway = Gateway::start(&yaml("", ""));
    for header in headers() {
        let mut client = open_from(DIRECT, gateway.address);
        client.send([&header[..], GET].concat());
        assert_eq!(client.response().unwrap().status, 400, "{}", header.escape_ascii());
        assert!(client.is_closed());
    }
    assert_eq!(gateway.metric("tollgate_failed_proxy_headers_total", &[]), 0.0);
}

#[test]
fn a_second_header_is_a_bad_request() {
    let gateway = Gateway::start(&yaml("", ""));
    for first in headers() {
        for second in [&line("198.51.100.1").into_bytes(), &binary(0x21, 0x11, IPV4)] {
            let mut client = proxied(gateway.address, [&first[..], second, GET].concat());
            assert_eq!(client.response().unwrap().status, 400, "{}", second.escape_ascii());
        }
    }
}

#[test]
fn a_header_may_arrive_in_any_pieces() {
    let gateway = Gateway::start(&yaml(", timeout: 60s", ""));
    let fields = [IPV4, b"\x04\x0F\x00", &[0; 0xF00]].concat();
    let [text, short] = headers();
    for header in [&text, &short, &binary(0x21, 0x11, &fields)] {
        let bytes = [&header[..], GET].concat();
        let step = if bytes.len() > 1000 { 97 } else { 1 };
        let mut client = open_from(BALANCER, gateway.address);
        for piece in bytes.chunks(step) {
            client.send(piece);
            // Lets the gateway read it alone.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(received(&client.response().unwrap(), "x-forwarded-for"), "192.0.2.7");
    }
    // Two requests and the header in one packet.
    let mut client = proxied(gateway.address, [&text[..], GET, GET].concat());
    for _ in 0..2 {
        assert_eq!(received(&client.response().unwrap(), "x-forwarded-for"), "192.0.2.7");
    }
    // The longest header, and a request behind it.
    let fields = [IPV4, b"\x04\x0F\xE1", &[0; 0xFE1]].concat();
    let longest = binary(0x21, 0x11, &fields);
    assert_eq!(longest.len(), 4096);
    assert_eq!(received(&get(&mut proxied(gateway.address, longest)), "x-forwarded-for"), "192.0.2.7");
}

/// Opens a connection from the load balancer with `header` before TLS, in the same packet.
fn open_tls(gateway: &Gateway, certificates: &Certificates, header: &[u8]) -> Tls {
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(client_config(certificates, &[]), name).unwrap();
    let mut bytes = header.to_vec();
    connection.write_tls(&mut bytes).unwrap();
    let mut client = open_from(BALANCER, gateway.address);
    client.send(bytes);
    StreamOwned::new(connection, client.stream().try_clone().unwrap())
}

#[test]
fn a_header_precedes_tls_and_one_within_is_a_bad_request() {
    let certificates = Certificates::new();
    let (certificate, key) = (certificates.server(), certificates.server_key());
    let ssl = format!(
        "workers: 1, http: {{port: 0, redirect: false}}, ssl: {{certificate: {}, certificate-private-key: {}}}",
        certificate.display(),
        key.display()
    );
    let gateway = Gateway::start(&yaml("", "").replace("workers: 1", &ssl));
    for header in headers() {
        let mut client = open_tls(&gateway, &certificates, &header);
        client.write_all(GET).unwrap();
        let head = until(&mut client, "\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let body = until(&mut client, "bodyBytes");
        assert!(body.contains("\"x-forwarded-for\": \"192.0.2.7\""), "{body}");
        assert!(body.contains("\"x-forwarded-proto\": \"https\""), "{body}");
        let mut client = open_tls(&gateway, &certificates, &header);
        client.write_all(&[&header[..], GET].concat()).unwrap();
        assert!(until(&mut client, "\r\n").starts_with("HTTP/1.1 400"));
    }
    // From another address, a header is no TLS.
    let failed = || gateway.metric("tollgate_tls_handshakes_total", &["outcome=\"failed\""]);
    let before = failed();
    for header in headers() {
        let mut client = open_from(DIRECT, gateway.address);
        client.send(&header);
        client.finish();
        let mut response = String::new();
        client.stream().read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 400"), "{response}");
    }
    eventually("both failed handshakes are counted", || failed() == before + 2.0);
    // The port without TLS takes the same headers.
    let http = crate::tls_sites::plain(&gateway);
    assert_eq!(received(&get(&mut proxied(http, line("192.0.2.7"))), "x-forwarded-for"), "192.0.2.7");
}
