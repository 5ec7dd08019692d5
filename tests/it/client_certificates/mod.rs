//! Certificates of clients: as keys of limits, in fields for upstreams, in the access log and in dry runs.

mod proxies;

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use tollgate_test_support::Certificates;

use crate::access_log::lines;
use crate::support::gateway::{Gateway, run};
use crate::support::upstream::{Upstream, response};
use crate::tls::{until, yaml};
use crate::traces::{attribute, traced, wait_for};

const URI: &str = "spiffe://example/orders";

/// Certificates with the clients `orders` (each kind of name), `billing` (another URI), `both` (two URIs) and `client` (a
/// common name alone).
fn certificates() -> Certificates {
    let certificates = Certificates::new();
    certificates.sign_client("orders", &[URI], &["Orders.example"], &["orders@example.com"]);
    certificates.sign_client("billing", &["spiffe://example/billing"], &[], &[]);
    certificates.sign_client("both", &[URI, "spiffe://example/billing"], &[], &[]);
    certificates
}

fn want(certificates: &Certificates, more: &str) -> String {
    format!(", client-auth: want, trust-certificate: '{}'{more}", certificates.ca().display())
}

/// Sends a request with the certificate of `client` by curl. Returns the status and the response.
fn curl(gateway: &Gateway, certificates: &Certificates, client: Option<&str>, more: &[&str]) -> (u16, String) {
    let ca = certificates.ca();
    let file = |name: &str, kind: &str| ca.with_file_name(format!("{name}.{kind}")).display().to_string();
    let mut command = Command::new("curl");
    command.args(["-sS", "-i", "--max-time", "20", "--cacert"]).arg(&ca).args(more);
    if let Some(client) = client {
        command.args(["--cert", &file(client, "pem"), "--key", &file(client, "key")]);
    }
    let output = command.arg(format!("https://localhost:{}/", gateway.address.port())).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr))), text)
}

fn limited(uri: &str, resolver: &str, more: &str) -> String {
    format!(
        "routes: [{{id: a, uri: '{uri}', predicates: [Path=/**], filters: [{{name: RequestRateLimiter, args: {{replenish-rate: 0.001, \
         burst-capacity: 1, key-resolver: '{resolver}'{more}}}}}]}}]\n"
    )
}

#[test]
fn each_name_of_a_certificate_is_a_key_over_every_protocol() {
    let certificates = certificates();
    let versions: [&[&str]; 3] = [&["--http1.1"], &["--http2"], &["--http1.1", "--tls-max", "1.2"]];
    for (resolver, others) in [
        ("tls:san-uri", "client"),
        ("tls:san-dns", "billing"),
        ("tls:san-email", "billing"),
        ("tls:subject-cn", ""),
        ("tls:fingerprint-sha256", ""),
    ] {
        let gateway = Gateway::start(&yaml(&certificates, &want(&certificates, ""), &limited("no:", resolver, "")));
        let status = |client, version: &[&str]| curl(&gateway, &certificates, client, version).0;
        assert_eq!(status(Some("orders"), versions[0]), 200, "{resolver}");
        for version in versions {
            assert_eq!(status(Some("orders"), version), 429, "{resolver} {version:?}");
        }
        assert_eq!(status(None, &[]), 403, "{resolver}: no certificate");
        match others {
            "" => assert_eq!(status(Some("billing"), versions[1]), 200, "{resolver}: another key"),
            without_name => assert_eq!(status(Some(without_name), versions[1]), 403, "{resolver}"),
        }
    }
}

#[test]
fn a_certificate_with_two_uris_has_no_key_and_lists_name_clients() {
    let certificates = certificates();
    let lists = format!(", deny-empty-key: false, exempt: ['{URI}'], block: ['spiffe://example/billing']");
    let gateway =
        Gateway::start(&yaml(&certificates, &want(&certificates, ""), &limited("no:", "tls:san-uri", &lists)));
    let statuses =
        ["orders", "orders", "billing", "both", "client"].map(|name| curl(&gateway, &certificates, Some(name), &[]).0);
    assert_eq!(statuses, [200, 200, 403, 403, 200]);
}

#[test]
fn a_resumed_session_keeps_the_certificate() {
    let certificates = certificates();
    let gateway = Gateway::start(&yaml(&certificates, &want(&certificates, ""), &limited("no:", "tls:san-uri", "")));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(certificates.ca()).unwrap()).unwrap();
    let file = |name: &str| certificates.ca().with_file_name(name);
    for (version, first) in [(&rustls::version::TLS13, "200"), (&rustls::version::TLS12, "429")] {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let chain = vec![CertificateDer::from_pem_file(file("orders.pem")).unwrap()];
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let key = PrivateKeyDer::from_pem_file(file("orders.key")).unwrap();
        let config = Arc::new(config.with_root_certificates(roots.clone()).with_client_auth_cert(chain, key).unwrap());
        let request = || {
            let stream = std::net::TcpStream::connect(gateway.address).unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            let mut client = StreamOwned::new(ClientConnection::new(Arc::clone(&config), name).unwrap(), stream);
            client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            let head = until(&mut client, "\r\n\r\n");
            (head[9..12].to_owned(), client.conn.handshake_kind().unwrap())
        };
        assert_eq!(request(), (first.to_owned(), HandshakeKind::Full), "{version:?}");
        assert_eq!(request(), ("429".to_owned(), HandshakeKind::Resumed), "{version:?}: 403 without the certificate");
    }
}

#[test]
fn openssl_resumes_a_session_of_each_version_with_its_certificate() {
    let certificates = certificates();
    let gateway = Gateway::start(&yaml(&certificates, &want(&certificates, ""), &limited("no:", "tls:san-uri", "")));
    let folder = tempfile::tempdir().unwrap();
    let session = folder.path().join("session.pem").display().to_string();
    let file = |name: &str| certificates.ca().with_file_name(name).display().to_string();
    let connect = format!("localhost:{}", gateway.address.port());
    let (ca, own) = (certificates.ca().display().to_string(), [file("orders.pem"), file("orders.key")]);
    let request = |version: &str, more: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &connect, "-CAfile", &ca, "-ign_eof", version]).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let get = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        child.stdin.take().unwrap().write_all(get).unwrap();
        let text = String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned();
        let status = text.split("HTTP/1.1 ").nth(1).map(|rest| rest[..3].to_owned());
        (status.unwrap_or_else(|| panic!("{version} {more:?}: {text}")), text.contains("Reused, "))
    };
    for (version, first) in [("-tls1_3", "200"), ("-tls1_2", "429")] {
        let with = ["-cert", &own[0], "-key", &own[1], "-sess_out", &session];
        assert_eq!(request(version, &with), (first.to_owned(), false), "{version}");
        assert_eq!(request(version, &["-sess_in", &session]), ("429".to_owned(), true), "{version}: 403 without one");
        assert_eq!(request(version, &[]).0, "403", "{version}");
    }
}

#[test]
fn upstreams_get_the_certificate_in_the_fields_of_the_mode() {
    let certificates = certificates();
    let upstream = Upstream::ok("ok");
    let routes = format!("routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]\n", upstream.uri());
    let der = CertificateDer::from_pem_file(certificates.ca().with_file_name("orders.pem")).unwrap();
    let field = format!(":{}:", STANDARD.encode(&der));
    // OpenSSL completes the chain with the authority that it trusts.
    let authority = CertificateDer::from_pem_file(certificates.ca()).unwrap();
    let chain = format!(":{}:", STANDARD.encode(&authority));
    let forged: &[&str] =
        &["-H", "Client-Cert: :AAAA:", "-H", "Client-Cert-Chain: :AAAA:", "-H", "X-Forwarded-Client-Cert: Hash=1"];
    for (mode, expected) in
        [("off", [None, None]), ("client-cert", [Some(&*field), None]), ("xfcc", [None, Some("Hash=")])]
    {
        let ssl = want(&certificates, &format!(", forward-client-cert: {mode}"));
        let gateway = Gateway::start(&yaml(&certificates, &ssl, &routes));
        assert_eq!(curl(&gateway, &certificates, Some("orders"), forged).0, 200);
        let seen = upstream.requests().pop().unwrap();
        assert_eq!(seen.header("client-cert"), expected[0], "{mode}");
        assert_eq!(seen.header("client-cert-chain"), expected[0].map(|_| &*chain), "{mode}");
        let xfcc = seen.header("x-forwarded-client-cert");
        assert_eq!(xfcc.is_some(), expected[1].is_some(), "{mode}: {xfcc:?}");
        if let Some(xfcc) = xfcc {
            let (hash, rest) = xfcc.strip_prefix("Hash=").unwrap().split_once(';').unwrap();
            assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{xfcc}");
            assert!(rest.contains("CN=orders") && rest.ends_with(&format!(";URI={URI};DNS=orders.example")), "{xfcc}");
        }
    }
}

#[test]
fn client_cert_of_clients_is_removed_in_our_own_form_and_kept_in_a_spring_file() {
    let upstream =
        Upstream::start(|request| response(200, &[], request.header("client-cert").unwrap_or("-").as_bytes()));
    let routes = format!("routes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]", upstream.uri());
    let seen =
        |yaml: &str| Gateway::start(yaml).connect().request("GET", "/", &[("Client-Cert", ":AAAA:")], b"").text();
    assert_eq!(seen(&routes), "-");
    assert_eq!(seen(&format!("trusted-proxies: [127.0.0.1]\n{routes}")), ":AAAA:");
    assert_eq!(seen(&format!("spring.cloud.gateway.{routes}")), ":AAAA:");
}

#[test]
fn the_access_log_names_the_subject() {
    let certificates = certificates();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let rest = format!(
        "access-log: {{output: '{}', format: json}}\nroutes: [{{id: a, uri: 'no:', predicates: [Path=/**]}}]\n",
        path.display()
    );
    let gateway = Gateway::start(&yaml(&certificates, &want(&certificates, ""), &rest));
    curl(&gateway, &certificates, Some("orders"), &[]);
    let line: serde_json::Value = serde_json::from_str(&lines(&path, 1)[0]).unwrap();
    assert!(line["client_subject"].as_str().unwrap().contains("CN=orders"), "{line}");
}

#[test]
fn traces_name_the_subject_of_the_connection() {
    let certificates = certificates();
    let collector = Upstream::ok("{}");
    let routes = "routes: [{id: a, uri: 'no:', predicates: [Path=/**]}]\n";
    let rest = format!("{}{routes}", traced(&collector, 1.0));
    let gateway = Gateway::start(&yaml(&certificates, &want(&certificates, ""), &rest));
    for client in [Some("orders"), None] {
        curl(&gateway, &certificates, client, &["--http2"]);
    }
    let subjects: Vec<String> =
        wait_for(&collector, 2).iter().map(|span| attribute(span, "tls.client.subject")).collect();
    assert!(subjects[0].contains("CN=orders") && subjects[1].is_empty(), "{subjects:?}");
}

#[test]
fn a_key_of_an_unknown_part_of_a_certificate_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tollgate.yaml");
    std::fs::write(&config, limited("no:", "tls:san-ip", "")).unwrap();
    let (code, _, errors) = run(&["check", "--offline", config.to_str().unwrap()]);
    assert!(code == Some(1) && errors.contains("tls:fingerprint-sha256"), "{errors}");
}
