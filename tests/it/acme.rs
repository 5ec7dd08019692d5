//! Certificates from an ACME server: Debian's `pebble`, which verifies names over the ports of the gateway.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tollgate_test_support::{Certificates, free_address};

use crate::support::eventually;
use crate::support::gateway::Gateway;

/// A running ACME server, with the DNS server that it asks: all names are at 127.0.0.1.
struct Pebble {
    server: Child,
    dns: Child,
    address: SocketAddr,
    management: SocketAddr,
}

impl Pebble {
    /// Starts a server that verifies names at the ports `http` and `tls`. Its certificates are valid for `seconds`.
    fn start(certificates: &Certificates, address: SocketAddr, (http, tls): (u16, u16), seconds: u64) -> Self {
        let [management, dns_management] = std::array::from_fn(|_| free_address());
        let resolver = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = certificates.folder().join("pebble.json");
        let settings = serde_json::json!({"pebble": {
            "listenAddress": address.to_string(), "managementListenAddress": management.to_string(),
            "certificate": certificates.server(), "privateKey": certificates.server_key(),
            "httpPort": http, "tlsPort": tls, "certificateValidityPeriod": seconds,
        }});
        std::fs::write(&config, settings.to_string()).unwrap();
        let mut dns = Command::new("pebble-challtestsrv");
        dns.args(["-http01", "", "-https01", "", "-tlsalpn01", "", "-defaultIPv6", ""]).args([
            "-dns01",
            &resolver.to_string(),
            "-management",
            &dns_management.to_string(),
        ]);
        let dns = quiet(&mut dns);
        let mut server = Command::new("pebble");
        server.arg("-config").arg(&config).args(["-dnsserver", &resolver.to_string()]).env("PEBBLE_VA_NOSLEEP", "1");
        let server = quiet(&mut server);
        eventually("pebble listens", || {
            TcpStream::connect(address).is_ok() && TcpStream::connect(dns_management).is_ok()
        });
        Self { server, dns, address, management }
    }

    fn directory(&self) -> String {
        directory(self.address)
    }

    /// Writes the root certificate of this run to a file.
    fn root(&self, certificates: &Certificates) -> String {
        let file = certificates.folder().join("root.pem").display().to_string();
        let url = format!("https://localhost:{}/roots/0", self.management.port());
        let ca = certificates.ca();
        let status = Command::new("curl").args(["-sS", "--cacert", ca.to_str().unwrap(), "-o", &file, &url]).status();
        assert!(status.unwrap().success());
        file
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.dns] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn quiet(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Debian's `pebble`")
}

fn directory(address: SocketAddr) -> String {
    format!("https://localhost:{}/dir", address.port())
}

/// Returns a configuration; `more` are further keys of `server`.
fn yaml(certificates: &Certificates, directory: &str, domains: &str, more: &str) -> String {
    let storage = certificates.folder().join("acme");
    format!(
        "server:\n  address: 127.0.0.1\n  workers: 2\n  acme: {{domains: {domains}, email: a@shop.example, directory: '{directory}', \
         storage: {}}}\n{more}routes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n",
        storage.display()
    )
}

/// Starts a gateway on the port `tls`.
fn start(certificates: &Certificates, directory: &str, domains: &str, tls: SocketAddr, more: &str) -> Gateway {
    let yaml = yaml(certificates, directory, domains, more);
    let port = tls.port().to_string();
    Gateway::start_with(&yaml, &[("SERVER_PORT", &port), ("SSL_CERT_FILE", certificates.ca().to_str().unwrap())])
}

/// Runs curl on `https://HOST:PORT/`, with HOST at the gateway. Returns its exit code.
fn curl(tls: SocketAddr, host: &str, trust: &[&str]) -> i32 {
    let port = tls.port();
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20", "--resolve", &format!("{host}:{port}:127.0.0.1")])
        .args(trust)
        .arg(format!("https://{host}:{port}/"))
        .output();
    output.unwrap().status.code().unwrap()
}

#[test]
fn certificates_are_obtained_over_http_and_over_tls_and_kept() {
    let certificates = Certificates::new();
    let [tls, http] = std::array::from_fn(|_| free_address());
    let pebble = Pebble::start(&certificates, free_address(), (http.port(), tls.port()), 3_600);
    let root = pebble.root(&certificates);
    let by_http = format!("  http: {{port: {}}}\n", http.port());
    for (domains, hosts, more) in [
        ("[shop.example, www.Shop.example]", &["shop.example", "www.shop.example"][..], &*by_http),
        // The former certificates stay in the folder.
        ("[blog.example, shop.example]", &["blog.example", "shop.example"], ""),
    ] {
        let gateway = start(&certificates, &pebble.directory(), domains, tls, more);
        for host in hosts {
            eventually("the certificate is presented", || curl(tls, host, &["--cacert", &root]) == 0);
        }
        // 60: another name gets the default certificate.
        assert_eq!(curl(tls, "other.example", &["--cacert", &root]), 60);
        let log = gateway.log();
        assert!(!log.contains("PRIVATE"), "{log}");
        let obtained = log.matches("certificate obtained").count();
        assert_eq!(obtained, if more.is_empty() { 1 } else { 2 }, "{log}");
    }
    let storage = certificates.folder().join("acme");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&storage), 0o700);
    let mut files: Vec<_> = std::fs::read_dir(&storage).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["account.json", "blog.example.pem", "shop.example.pem", "www.shop.example.pem"]);
    assert!(files.iter().all(|path| mode(path) == 0o600));
    // A certificate that is damaged or for another name, and an account that the server does not know, are like absent ones.
    std::fs::write(&files[1], "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
    std::fs::copy(&files[3], &files[2]).unwrap();
    drop(pebble);
    let pebble = Pebble::start(&certificates, free_address(), (http.port(), tls.port()), 3_600);
    let account = std::fs::read_to_string(&files[0]).unwrap();
    let before = account.split("https://localhost:").nth(1).unwrap().split('/').next().unwrap().to_owned();
    std::fs::write(&files[0], account.replace(&before, &pebble.address.port().to_string())).unwrap();
    let root = pebble.root(&certificates);
    let _gateway = start(&certificates, &pebble.directory(), "[blog.example, shop.example]", tls, "");
    for host in ["blog.example", "shop.example"] {
        eventually("the certificate is presented", || curl(tls, host, &["--cacert", &root]) == 0);
    }
}

#[test]
fn a_certificate_that_is_due_at_once_is_not_ordered_again_at_once() {
    let certificates = Certificates::new();
    let [tls, http] = std::array::from_fn(|_| free_address());
    // As if the clock of this host were ahead.
    let pebble = Pebble::start(&certificates, free_address(), (http.port(), tls.port()), 1);
    let gateway = start(&certificates, &pebble.directory(), "[shop.example]", tls, "");
    let line = gateway.logged("certificate not obtained");
    assert!(line.contains("check the clock of this host") && line.contains("retry_in="), "{line}");
    eventually("it is presented all the same", || curl(tls, "shop.example", &["-k"]) == 0);
}

#[test]
fn a_renewal_under_load_loses_no_request() {
    let certificates = Certificates::new();
    let [tls, http] = std::array::from_fn(|_| free_address());
    let pebble = Pebble::start(&certificates, free_address(), (http.port(), tls.port()), 9);
    let more = format!("  http: {{port: {}}}\n", http.port());
    let gateway = start(&certificates, &pebble.directory(), "[shop.example]", tls, &more);
    gateway.logged("certificate obtained");
    eventually("the certificate is presented", || curl(tls, "shop.example", &["-k"]) == 0);
    eventually("it is renewed", || {
        assert_eq!(curl(tls, "shop.example", &["-k"]), 0);
        gateway.log().matches("certificate obtained").count() >= 2
    });
}

#[test]
fn an_acme_server_that_is_absent_or_hangs_or_refuses_changes_nothing() {
    let certificates = Certificates::new();
    let [tls, http, address] = std::array::from_fn(|_| free_address());
    let (own, key) = certificates.sign_for("own", &["own.example"]);
    let more = format!("  ssl: {{certificate: {}, certificate-private-key: {}}}\n", own.display(), key.display());
    let ca = certificates.ca();
    let trust = ["--cacert", ca.to_str().unwrap()];
    let serves = || assert_eq!(curl(tls, "own.example", &trust), 0);
    // Absent.
    let gateway = start(&certificates, &directory(address), "[shop.example]", tls, &more);
    let line = gateway.logged("certificate not obtained");
    assert!(line.contains("server.acme.directory") && line.contains("retry_in="), "{line}");
    serves();
    // It is there again, and cannot reach the gateway: nothing listens where it looks.
    let pebble = Pebble::start(&certificates, address, (http.port(), http.port()), 3_600);
    gateway.signal("HUP");
    let line = gateway.logged("check DNS, firewall and port mapping");
    assert!(line.contains("shop.example"), "{line}");
    serves();
    drop((gateway, pebble));
    // It hangs.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut gateway = start(&certificates, &directory(silent.local_addr().unwrap()), "[shop.example]", tls, &more);
    let _held = silent.accept().unwrap();
    serves();
    // A reload with another directory does not wait for it.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    gateway.reload(&yaml(&certificates, &directory(other.local_addr().unwrap()), "[shop.example]", &more));
    let _held_too = other.accept().unwrap();
    gateway.signal("TERM");
    assert!(gateway.wait().success(), "an order does not hold the shutdown");
}
