//! TLS with clients: certificates, protocols, and the same behaviour as without TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tollgate_test_support::Certificates;

use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request};
use crate::support::{PATIENCE, eventually};

/// Starts a gateway with `certificates`; `more` are further keys of `server.ssl`.
pub(crate) fn yaml(certificates: &Certificates, more: &str, rest: &str) -> String {
    let (cert, key) = (certificates.server(), certificates.server_key());
    format!(
        "server:\n  address: 127.0.0.1\n  workers: 1\n  ssl: {{certificate: {}, \
         certificate-private-key: {}{more}}}\n{rest}",
        cert.display(),
        key.display(),
    )
}

const ECHO: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\ntrusted-proxies: [127.0.0.1]\n";

/// Runs curl on `https://localhost:PORT/path` with `arguments`; returns its exit code and output.
fn curl(gateway: &Gateway, certificates: &Certificates, arguments: &[&str]) -> (i32, String) {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20", "--cacert", certificates.ca().to_str().unwrap()])
        .args(["-w", "\n%{http_version} %{http_code}"])
        .args(arguments)
        .arg(format!("https://localhost:{}/path", gateway.address.port()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text)
}

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

pub(crate) fn open(address: SocketAddr, certificates: &Certificates) -> Tls {
    open_with(address, certificates, &[])
}

/// Returns settings of a client that offers `protocols`.
pub(crate) fn client_config(certificates: &Certificates, protocols: &[&str]) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificates.ca()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// Opens a connection that offers `protocols`.
pub(crate) fn open_with(address: SocketAddr, certificates: &Certificates, protocols: &[&str]) -> Tls {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(client_config(certificates, protocols), name).unwrap(), stream)
}

/// Reads until `end` arrives.
pub(crate) fn until(stream: &mut Tls, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|error| panic!("{error} after {text:?}"));
        text.push(char::from(byte[0]));
    }
    text
}

#[test]
fn a_connection_whose_upgrade_was_ignored_ends_with_a_close_notify() {
    let certificates = Certificates::new();
    let gateway = Gateway::start(&yaml(&certificates, "", ECHO));
    for connection in ["close", "Upgrade, close"] {
        let mut client = open(gateway.address, &certificates);
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: {connection}\r\nUpgrade: h2c\r\n\r\n");
        client.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap_or_else(|error| panic!("{connection}: {error}"));
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    }
}

#[test]
fn alpn_selects_the_protocol_and_upstreams_see_https() {
    let certificates = Certificates::new();
    let gateway = Gateway::start(&yaml(&certificates, "", ECHO));
    for (flag, version) in [("--http1.1", "1.1 200"), ("--http2", "2 200"), ("--no-alpn", "1.1 200")] {
        let (code, text) = curl(&gateway, &certificates, &[flag]);
        assert_eq!(code, 0, "{flag}: {text}");
        assert!(text.ends_with(version), "{flag}: {text}");
        assert!(text.contains("\"x-forwarded-proto\": \"https\"") && text.contains("proto=https;"), "{flag}: {text}");
        assert!(text.contains(&format!("\"x-forwarded-port\": \"{}\"", gateway.address.port())), "{flag}: {text}");
    }
    let (_, text) = curl(&gateway, &certificates, &["-H", "Host: shop.example"]);
    assert!(text.contains("\"x-forwarded-port\": \"443\""), "{text}");
    let (code, text) = curl(&gateway, &certificates, &["--tls-max", "1.2"]);
    assert_eq!(code, 0, "{text}");
    let (code, _) = curl(&gateway, &Certificates::new(), &[]);
    assert_ne!(code, 0, "another authority's certificate is not trusted");
    let plain = gateway.get("/");
    assert_eq!((plain.status, plain.text().trim()), (400, "this port requires TLS: use an https:// URL"));
}

#[test]
fn origins_with_different_schemes_are_different() {
    let certificates = Certificates::new();
    let policy = "cors: {allowed-origins: ['http://shop.example', 'https://a.example']}\n";
    let gateway = Gateway::start(&yaml(&certificates, "", &format!("{policy}{ECHO}")));
    for (version, origin, proto, granted) in [
        ("--http1.1", "http://shop.example", "", true),
        ("--http2", "http://shop.example", "", true),
        ("--http2", "https://shop.example", "", false),
        ("--http2", "https://shop.example:443", "", false),
        ("--http1.1", "https://a.example", "", true),
        ("--http1.1", "http://shop.example", "X-Forwarded-Proto: http", false),
        ("--http1.1", "http://shop.example", "X-Forwarded-Proto: https,http", true),
    ] {
        let origin = format!("Origin: {origin}");
        let arguments = [version, "-i", "-H", "Host: shop.example", "-H", &origin, "-H", proto];
        let (code, text) = curl(&gateway, &certificates, &arguments);
        let says_so = text.to_lowercase().contains("access-control-allow-origin");
        assert!(code == 0 && text.contains(" 200"), "{version} {origin} {proto}: {text}");
        assert_eq!(says_so, granted, "{version} {origin} {proto}: {text}");
    }
}

#[test]
fn tls_versions_and_http2_can_be_restricted() {
    let certificates = Certificates::new();
    let only =
        yaml(&certificates, ", enabled-protocols: [TLSv1.3]", ECHO).replace("  ssl:", "  http2.enabled: no\n  ssl:");
    let gateway = Gateway::start(&only);
    let (code, text) = curl(&gateway, &certificates, &["--tls-max", "1.2"]);
    assert_eq!(code, 35, "{text}");
    let (code, text) = curl(&gateway, &certificates, &["--http2"]);
    assert!(code == 0 && text.ends_with("1.1 200"), "{text}");
}

#[test]
fn client_certificates_are_required_if_configured() {
    let (certificates, strangers) = (Certificates::new(), Certificates::new());
    let own = |of: &Certificates| [of.client().display().to_string(), of.client_key().display().to_string()];
    for (auth, without) in [("need", false), ("want", true)] {
        let more = format!(", client-auth: {auth}, trust-certificate: 'file:{}'", certificates.ca().display());
        let gateway = Gateway::start(&yaml(&certificates, &more, ECHO));
        let [cert, key] = own(&certificates);
        let (code, text) = curl(&gateway, &certificates, &["--cert", &cert, "--key", &key]);
        assert_eq!(code, 0, "{auth}: {text}");
        assert_eq!(curl(&gateway, &certificates, &[]).0 == 0, without, "{auth} without one");
        let [cert, key] = own(&strangers);
        assert_ne!(curl(&gateway, &certificates, &["--cert", &cert, "--key", &key]).0, 0, "{auth} with a stranger's");
    }
}

#[test]
fn tls_connections_survive_pauses_pipelining_and_tunnels() {
    let certificates = Certificates::new();
    let upstream = Upstream::scripted(|stream, _| {
        let Some(_) = read_request(stream) else { return };
        let _ = stream
            .write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello");
        let mut said = [0; 3];
        let _ = stream.read_exact(&mut said);
        let _ = stream.write_all(&said.to_ascii_uppercase());
    });
    let routes = format!(
        "access-log: {{output: off}}\nroutes:\n- {{id: ws, uri: '{}', predicates: [Path=/ws]}}\n- {{id: a, uri: 'echo:', predicates: [Path=/**]}}\n",
        upstream.uri()
    );
    let gateway = Gateway::start(&yaml(&certificates, "", &routes));
    let mut client = open(gateway.address, &certificates);
    let ask = b"GET /one HTTP/1.1\r\nHost: a\r\n\r\n";
    client.write_all(&[&ask[..], ask].concat()).unwrap();
    for _ in 0..2 {
        assert!(until(&mut client, "\n}\n").starts_with("HTTP/1.1 200"));
    }
    // Longer than it takes to park an idle connection.
    std::thread::sleep(Duration::from_millis(150));
    client.write_all(ask).unwrap();
    assert!(until(&mut client, "\n}\n").starts_with("HTTP/1.1 200"));
    client.write_all(b"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n").unwrap();
    assert!(until(&mut client, "hello").starts_with("HTTP/1.1 101"));
    client.write_all(b"one").unwrap();
    until(&mut client, "ONE");
}

#[test]
fn a_reload_presents_the_new_certificate_to_new_connections() {
    let certificates = Certificates::new();
    let mut gateway = Gateway::start(&yaml(&certificates, "", ECHO));
    let mut kept = open(gateway.address, &certificates);
    kept.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    until(&mut kept, "\n}\n");
    certificates.sign_for_other_host();
    gateway.reload(&yaml(&certificates, "", ECHO));
    eventually("the new certificate is shown", || curl(&gateway, &certificates, &[]).0 == 60);
    kept.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    until(&mut kept, "\n}\n");
    std::fs::write(certificates.server_key(), "nothing").unwrap();
    gateway.reload(&yaml(&certificates, "", ECHO));
    gateway.logged("holds no private key in PEM");
    kept.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    until(&mut kept, "\n}\n");
    gateway.signal("TERM");
    assert!(gateway.wait().success(), "it drains");
}

#[test]
fn key_stores_serve_and_a_reload_reads_them_again() {
    let certificates = Certificates::new();
    let store = certificates.folder().join("store.p12");
    let export = || {
        let output = Command::new("openssl")
            .args(["pkcs12", "-export", "-name", "web", "-passout", "pass:s3cret", "-out"])
            .arg(&store)
            .arg("-in")
            .arg(certificates.server())
            .arg("-inkey")
            .arg(certificates.server_key())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    export();
    let yaml = format!(
        "server: {{address: 127.0.0.1, workers: 1, ssl: {{key-store: {}, key-store-password: s3cret, key-alias: web}}}}\n{ECHO}",
        store.display()
    );
    let gateway = Gateway::start(&yaml);
    assert_eq!(curl(&gateway, &certificates, &[]).0, 0);
    std::fs::write(&store, "damaged").unwrap();
    gateway.reload(&yaml);
    gateway.logged("it is not a PKCS#12 store, or it is damaged");
    assert_eq!(curl(&gateway, &certificates, &[]).0, 0, "the running configuration stays");
    certificates.sign_for_other_host();
    export();
    gateway.reload(&yaml);
    eventually("the new certificate is shown", || curl(&gateway, &certificates, &[]).0 == 60);
}

#[test]
fn an_unfinished_handshake_times_out() {
    let certificates = Certificates::new();
    let gateway = Gateway::start(&yaml(&certificates, "", ECHO).replace("  ssl:", "  header-timeout: 150ms\n  ssl:"));
    // The header of a 512-byte record, without its content.
    for start in [&b""[..], &[22, 3, 1, 2, 0][..]] {
        let begun = Instant::now();
        let mut client = Connection::open(gateway.address);
        client.send(start);
        assert!(client.is_closed());
        assert!(begun.elapsed() >= Duration::from_millis(125), "{:?}", begun.elapsed());
    }
    let mut client = open(gateway.address, &certificates);
    // On a busy machine its handshake may take too long as well.
    let _ = client.write_all(b"GET / HTTP/1.1\r\n");
    let mut rest = Vec::new();
    let _ = client.read_to_end(&mut rest);
    assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&rest));
}
