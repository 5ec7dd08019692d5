//! TLS for several sites: certificates by name, and the port without TLS beside them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use tollgate_test_support::{Certificates, free_address};

use crate::support::client::{Connection, get};
use crate::support::eventually;
use crate::support::gateway::Gateway;

const ECHO: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";

/// Returns an entry of `server.ssl.certificates`.
fn entry((certificate, key): &(PathBuf, PathBuf)) -> String {
    format!("{{certificate: {}, certificate-private-key: {}}}", certificate.display(), key.display())
}

/// Runs curl on `https://HOST:PORT/`, with HOST at the gateway; returns true if it trusts the certificate.
fn trusts(gateway: &Gateway, certificates: &Certificates, host: &str) -> bool {
    let port = gateway.address.port();
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20", "--cacert", certificates.ca().to_str().unwrap()])
        .args(["--resolve", &format!("{host}:{port}:127.0.0.1"), &format!("https://{host}:{port}/")])
        .output()
        .unwrap();
    // 60: the certificate is for another name.
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 60)), "{host}: {}", String::from_utf8_lossy(&output.stderr));
    code == Some(0)
}

/// Returns the subject of the certificate that `openssl s_client` gets with the arguments.
fn presented(gateway: &Gateway, arguments: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &gateway.address.to_string()])
        .args(arguments)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find(|line| line.starts_with("subject")).unwrap_or_default().replace(' ', "")
}

#[test]
fn three_sites_have_their_certificates_by_the_names_in_them() {
    let certificates = Certificates::new();
    let sites = [
        certificates.sign_for("shop", &["shop.example", "www.Shop.example"]),
        certificates.sign_for("blog", &["blog.example", "*.blog.example"]),
        certificates.sign_for("api", &["api.blog.example"]),
    ];
    let yaml = |sites: &[(PathBuf, PathBuf)]| {
        let entries: Vec<_> = sites.iter().map(entry).collect();
        format!("server: {{address: 127.0.0.1, workers: 1, ssl: {{certificates: [{}]}}}}\n{ECHO}", entries.join(", "))
    };
    let gateway = Gateway::start(&yaml(&sites));
    for host in ["shop.example", "www.shop.example", "blog.example", "img.blog.example", "api.blog.example"] {
        assert!(trusts(&gateway, &certificates, host), "{host}");
    }
    for host in ["other.example", "a.b.blog.example"] {
        assert!(!trusts(&gateway, &certificates, host), "{host}");
    }
    // An exact name precedes a wildcard; the first certificate is the default one.
    assert!(presented(&gateway, &["-servername", "API.blog.example"]).ends_with("CN=api"));
    assert!(presented(&gateway, &["-servername", "other.example"]).ends_with("CN=shop"));
    assert!(presented(&gateway, &["-noservername"]).ends_with("CN=shop"));
    certificates.sign_for("api", &["new.example"]);
    gateway.reload(&yaml(&sites));
    eventually("the new certificate is presented", || trusts(&gateway, &certificates, "new.example"));
    let page = gateway.admin("/metrics").text();
    assert!(page.contains("server_name=\"*.blog.example\""), "{page}");
}

/// Returns the address of the port without TLS.
pub(crate) fn plain(gateway: &Gateway) -> SocketAddr {
    let line = gateway.logged("listening on https://");
    let rest = line.split(" http=\"http://").nth(1).unwrap_or_else(|| panic!("{line}"));
    rest.split('"').next().unwrap().parse().unwrap()
}

pub(crate) fn with_http(certificates: &Certificates, http: &str) -> String {
    let (certificate, key) = (certificates.server(), certificates.server_key());
    format!(
        "server: {{address: 127.0.0.1, workers: 2, http: {http}, ssl: {}}}\ndefault-filters:\n- name: SecureHeaders\n  args: {{strictTransportSecurityHeaderValue: max-age=31536000}}\n{ECHO}",
        entry(&(certificate, key))
    )
}

#[test]
fn clients_with_tls_learn_to_use_nothing_else() {
    let certificates = Certificates::new();
    let ssl = entry(&(certificates.server(), certificates.server_key()));
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, http: {{port: 0, redirect: false}}, ssl: {ssl}, \
         strict-transport-security: max-age=600; includeSubDomains}}\ntrusted-proxies: [127.0.0.2]\n\
         routes:\n- {{id: own, uri: 'echo:', predicates: [Path=/own], filters: [SecureHeaders]}}\n\
         - {{id: a, uri: 'echo:', predicates: [Path=/a]}}\n"
    ));
    let ca = certificates.ca();
    let fields = |scheme: &str, port: u16, target: &str, interface: &str| {
        let url = format!("{scheme}://localhost:{port}{target}");
        let arguments = ["-sSi", "--interface", interface, "-H", "X-Forwarded-Proto: https", "--cacert"];
        let output = Command::new("curl").args(arguments).arg(&ca).arg(url).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase();
        answer.lines().filter_map(|line| Some(line.strip_prefix("strict-transport-security: ")?.to_owned())).collect()
    };
    let (tls, clear) = (gateway.address.port(), plain(&gateway).port());
    let none: [&str; 0] = [];
    let expected: Vec<String> = fields("https", tls, "/own", "127.0.0.1");
    assert!(expected.len() == 1 && expected[0].contains("max-age=6311385"), "of the filter: {expected:?}");
    for target in ["/a", "/no-route"] {
        assert_eq!(fields("https", tls, target, "127.0.0.1"), ["max-age=600; includesubdomains"], "{target}");
        assert_eq!(
            fields("http", clear, target, "127.0.0.2"),
            ["max-age=600; includesubdomains"],
            "by a trusted proxy"
        );
        assert_eq!(fields("http", clear, target, "127.0.0.1"), none, "a client may not claim TLS");
    }
}

#[test]
fn requests_without_tls_are_redirected_to_https() {
    let certificates = Certificates::new();
    let address = free_address();
    let port = address.port().to_string();
    let gateway = Gateway::start_with(&with_http(&certificates, "{port: 0}"), &[("SERVER_PORT", &port)]);
    let http = plain(&gateway);
    let mut client = Connection::open(http);
    for (method, target, host, location) in [
        ("GET", "/a/../b?c=%20d", "Shop.example.", "https://shop.example/b?c=%20d".to_owned()),
        ("POST", "/", "shop.example:80", "https://shop.example/".to_owned()),
        ("GET", "/x", "shop.example:8080", format!("https://shop.example:{port}/x")),
        ("HEAD", "//evil.example/", "[::1]", "https://[::1]/evil.example/".to_owned()),
        ("GET", "http://other.example/y", "other.example", "https://other.example/y".to_owned()),
        ("GET", "/", "[::1]:81", format!("https://[::1]:{port}/")),
    ] {
        let response = client.request(method, target, &[("Host", host), ("Content-Length", "0")], b"");
        assert_eq!((response.status, response.header("location")), (308, Some(&*location)), "{target} at {host}");
        assert_eq!(response.header("strict-transport-security"), None, "RFC 6797 §7.2");
    }
    for request in [
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    ] {
        let mut client = Connection::open(http);
        client.send(request);
        assert_eq!(client.response().unwrap().status, 400, "{request}");
    }
    let url = format!("http://localhost:{}/two", http.port());
    let output = Command::new("curl")
        .args([
            "-sS",
            "-L",
            "-D",
            "-",
            "--http2-prior-knowledge",
            "--cacert",
            certificates.ca().to_str().unwrap(),
            &url,
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).to_lowercase();
    assert!(text.starts_with("http/2 308") && text.contains("http/2 200"), "{text}");
    assert_eq!(text.matches("strict-transport-security: max-age=31536000").count(), 1, "{text}");
    // The port drains like the one with TLS.
    let mut gateway = gateway;
    gateway.signal("TERM");
    assert!(gateway.wait().success());
}

#[test]
fn the_port_without_tls_may_serve_the_same_routes() {
    let certificates = Certificates::new();
    let yaml = with_http(&certificates, "{port: 0, redirect: false}");
    let gateway = Gateway::start(&yaml);
    let http = plain(&gateway);
    let response = get(http, "/served");
    assert_eq!(response.status, 200, "{}", response.text());
    // A reload applies to the port, too.
    gateway.reload(&yaml.replace("redirect: false", "redirect: true"));
    assert_eq!(
        Connection::open(http).request("GET", "/", &[("Host", "a")], b"").header("location"),
        Some("https://a/")
    );
    let by_proxy = format!("trusted-proxies: [127.0.0.1]\n{}", yaml.replace("redirect: false", "redirect: true"));
    gateway.reload(&by_proxy);
    for (scheme, status) in [("https", 200), ("http", 308)] {
        let fields = [("Host", "a"), ("X-Forwarded-Proto", scheme)];
        assert_eq!(Connection::open(http).request("GET", "/", &fields, b"").status, status, "{scheme}");
    }
    gateway.reload(&yaml.replace("port: 0", "port: 1"));
    let line = gateway.logged("takes effect after a restart");
    assert!(line.contains("server.http.port"), "{line}");
    assert_eq!(get(http, "/served").status, 200);
}
