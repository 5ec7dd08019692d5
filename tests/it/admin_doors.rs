//! Unix socket and TLS of the admin port, with curl and with the commands.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tollgate_test_support::Certificates;

use crate::support::eventually;
use crate::support::gateway::{Gateway, command};

const ROUTES: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{name: RequestRateLimiter, \
    args: {key-resolver: 'header:x-key', replenish-rate: 1, period: 1h, burst-capacity: 5}}]}]\n";
const TOKENS: &str = "tokens: [{name: ops, role: write, token: write-token-of-16-bytes}]";
const CHANGE: [&str; 2] = ["-X", "DELETE"];

/// Runs curl. Returns the status, or curl's exit code below zero.
fn curl(arguments: &[&str]) -> i32 {
    let output = Command::new("curl").args(["-sS", "-w", "%{http_code}", "-o", "/dev/null"]).args(arguments).output();
    let output = output.expect("curl is missing: tests/run installs it");
    match output.status.code() {
        Some(0) => String::from_utf8(output.stdout).unwrap().parse().unwrap(),
        code => -code.unwrap(),
    }
}

fn tollgate(arguments: &[&str]) -> Output {
    command().args(arguments).output().unwrap()
}

fn text(path: PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}

fn on_socket(socket: &Path) -> Gateway {
    let socket = socket.display();
    Gateway::start(&format!("management: {{server: {{address: 0.0.0.0, socket: {socket}}}, {TOKENS}}}\n{ROUTES}"))
}

#[test]
fn the_socket_serves_reads_and_changes_without_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let mut gateway = on_socket(&path);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (socket, place) = (text(path.clone()), format!("unix:{}", path.display()));
    let curl = |arguments: &[&str]| curl(&[&["--unix-socket", &socket], arguments].concat());
    eventually("it is ready", || curl(&["http://any-name/health/ready"]) == 200);
    assert_eq!(curl(&["http://localhost/api/limits"]), 200);
    assert_eq!(curl(&["-X", "DELETE", "http://localhost/api/limits/a/x"]), 200);
    assert_eq!(curl(&["-X", "DELETE", "-H", "Origin: http://evil.example", "http://localhost/api/limits/a/x"]), 403);
    assert!(gateway.logged("change requested on the admin port").contains("caller=local client=unix"));
    for command in [&["health"][..], &["status"], &["top"], &["reload"], &["limits", "grant", "a", "x", "1"]] {
        let output = tollgate(&[command, &[&place]].concat());
        assert_eq!(output.status.code(), Some(0), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    gateway.signal("TERM");
    assert!(gateway.wait().success());
    assert!(!path.exists(), "removed at the end");
    let output = tollgate(&["status", &place]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("no response from unix:"), "{output:?}");
}

#[test]
fn a_live_socket_is_refused_and_a_stale_one_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let mut first = on_socket(&path);
    let second = tollgate(&["--config", first.config().to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    let error = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(error.contains("another process listens on it"), "{error}");
    first.signal("KILL");
    first.wait();
    assert!(path.exists(), "a killed process leaves it");
    let third = on_socket(&path);
    eventually("the third one serves", || {
        curl(&["--unix-socket", &text(path.clone()), "http://a/health/ready"]) == 200
    });
    drop(third);
}

/// Starts a gateway whose admin port asks for client certificates.
fn with_tls(certificates: &Certificates, address: &str, auth: &str, writers: &str) -> Gateway {
    Gateway::start(&tls_config(certificates, address, auth, writers))
}

fn tls_config(certificates: &Certificates, address: &str, auth: &str, writers: &str) -> String {
    let [server, key, ca] =
        [certificates.server(), certificates.server_key(), certificates.ca()].map(|path| path.display().to_string());
    format!(
        "management:\n  server:\n    address: {address}\n    certificate-writers: [{writers}]\n    ssl: {{certificate: \
         '{server}', certificate-private-key: '{key}', trust-certificate: '{ca}', client-auth: {auth}}}\n  \
         {TOKENS}\n{ROUTES}"
    )
}

#[test]
fn a_client_certificate_reads_and_a_listed_one_writes() {
    let certificates = Certificates::new();
    let [ca, cert, key] = [certificates.ca(), certificates.client(), certificates.client_key()].map(text);
    for address in ["0.0.0.0", "127.0.0.1"] {
        let gateway = with_tls(&certificates, address, "need", "other");
        let base = format!("https://localhost:{}", gateway.admin.port());
        let own = ["--cacert", &ca, "--cert", &cert, "--key", &key];
        let read = |path: &str| curl(&[&own[..], &[&format!("{base}{path}")]].concat());
        let change = || curl(&[&own[..], &CHANGE, &[&format!("{base}/api/limits/a/x")]].concat());
        eventually("it is ready", || read("/health/ready") == 200);
        assert_eq!((read("/api/limits"), read("/metrics"), change()), (200, 200, 403), "{address}");
        assert_eq!(read("/api/limits/none/x"), 404);
        assert!(curl(&["--cacert", &ca, &format!("{base}/health/live")]) < 0, "no certificate, no connection");
        assert_eq!(curl(&["--cacert", &ca, &format!("http://localhost:{}/", gateway.admin.port())]), 400, "no TLS");
        for (writers, expected) in
            [("'tls:san-dns=client'", 403), ("other, 'tls:subject-cn=client'", 200), ("client", 200)]
        {
            gateway.reload(&tls_config(&certificates, address, "need", writers));
            assert_eq!(change(), expected, "{address} {writers}");
        }
        assert!(gateway.logged("status=200").contains("caller=certificate:client"), "{}", gateway.log());
        let bearer = "Authorization: Bearer unknown-token-of-16";
        assert_eq!(curl(&[&own[..], &["-H", bearer], &[&format!("{base}/api/limits")]].concat()), 401);

        let files = ["--cacert", &ca, "--cert", &cert, "--key", &key];
        for command in [&["health"][..], &["status"], &["top"], &["reload"], &["limits", "reset", "a", "x"]] {
            let output = tollgate(&[command, &[&base], &files].concat());
            assert_eq!(output.status.code(), Some(0), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        let unknown = tollgate(&["status", &base]);
        assert_eq!(unknown.status.code(), Some(1), "the system does not know the CA");
        let expiry = "tollgate_certificate_expiry_timestamp_seconds{role=\"management\"";
        assert!(metrics(&own, &base).contains(expiry), "{address}");
    }
}

#[test]
fn a_writer_by_an_unknown_part_is_an_error() {
    let certificates = Certificates::new();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tollgate.yaml");
    std::fs::write(&config, tls_config(&certificates, "127.0.0.1", "need", "'tls:san-ip=10.0.0.1'")).unwrap();
    let output = tollgate(&["check", "--offline", config.to_str().unwrap()]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && errors.contains("tls:san-uri=VALUE"), "{errors}");
}

/// Reads the metrics with curl.
fn metrics(own: &[&str], base: &str) -> String {
    let output = Command::new("curl").arg("-sS").args(own).arg(format!("{base}/metrics")).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn refused_certificates_are_explained_on_both_sides() {
    let certificates = Certificates::new();
    let gateway = with_tls(&certificates, "127.0.0.1", "need", "client");
    let base = format!("https://localhost:{}", gateway.admin.port());
    let [ca, cert, key] = [certificates.ca(), certificates.client(), certificates.client_key()].map(text);
    let status = |address: &str, files: &[&str]| {
        let output = tollgate(&[&["status", address][..], files].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let plain = base.replace("https://", "");
    let stranger = Certificates::new();
    let [other_ca, other_cert, other_key] = [stranger.ca(), stranger.client(), stranger.client_key()].map(text);
    let own = ["--cert", &cert, "--key", &key];
    let wrong_ca = [&["--cacert", &ca][..], &["--cert", &other_cert, "--key", &other_key]].concat();
    let unverified = [&["--cacert", &other_ca][..], &own].concat();
    for (address, files, remedy) in [
        (&base, &["--cacert", &ca][..], "requires a client certificate: give one with --cert and --key"),
        (&base, &wrong_ca, "does not know the CA of the client certificate"),
        (&base, &unverified, "give its CA with --cacert"),
        (&plain, &own, "this port requires TLS: use an https:// URL (status 400)"),
    ] {
        let error = status(address, files);
        assert!(error.contains(remedy), "{error}");
    }
    let line = gateway.logged("tls handshake on the admin port failed");
    assert!(line.contains("client=127.0.0.1 error="), "{line}");
    let optional = with_tls(&certificates, "127.0.0.1", "want", "client");
    let error = status(&format!("https://localhost:{}", optional.admin.port()), &["--cacert", &ca]);
    assert!(error.contains("a client certificate is required, or `Authorization"), "{error}");
    assert!(error.contains("TOLLGATE_TOKEN"), "{error}");
    let clear = Gateway::start(ROUTES);
    let error = status(&format!("https://127.0.0.1:{}", clear.admin.port()), &["--cacert", &ca]);
    assert!(error.contains("the port does not speak TLS"), "{error}");
}

#[test]
fn failed_handshakes_fill_no_log() {
    let certificates = Certificates::new();
    let gateway = with_tls(&certificates, "127.0.0.1", "need", "client");
    for _ in 0..60 {
        let mut client = TcpStream::connect(gateway.admin).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        // The port closes the connection when the handshake has failed. Unread bytes may make it a reset.
        let _ = client.read_to_end(&mut Vec::new());
    }
    gateway.logged("tls handshake on the admin port failed");
    let lines = gateway.log().matches("tls handshake on the admin port failed").count();
    assert!((1..=20).contains(&lines), "{lines} lines about 60 handshakes");
}

#[test]
fn optional_certificates_leave_tokens_and_probes() {
    let certificates = Certificates::new();
    let [ca, cert, key] = [certificates.ca(), certificates.client(), certificates.client_key()].map(text);
    let gateway = with_tls(&certificates, "127.0.0.1", "want", "client");
    let base = format!("https://localhost:{}", gateway.admin.port());
    let change =
        |more: &[&str]| curl(&[&["--cacert", &ca][..], more, &CHANGE, &[&format!("{base}/api/limits/a/x")]].concat());
    eventually("probes need no certificate", || curl(&["--cacert", &ca, &format!("{base}/health/ready")]) == 200);
    assert_eq!(change(&[]), 401, "neither a certificate nor a token, on a loopback address");
    assert_eq!(change(&["-H", "Authorization: Bearer write-token-of-16-bytes"]), 200);
    assert_eq!(change(&["--cert", &cert, "--key", &key]), 200);
    let stranger = Certificates::new();
    let [cert, key] = [stranger.client(), stranger.client_key()].map(text);
    assert!(change(&["--cert", &cert, "--key", &key]) < 0, "a certificate of another CA");
    assert_eq!(curl(&["-k", "-H", "Host: rebound.example", &format!("{base}/health/live")]), 403);
}

#[test]
fn a_reload_ends_the_events_of_a_removed_token_on_a_loopback_port_that_asks_for_one() {
    let certificates = Certificates::new();
    let gateway = with_tls(&certificates, "127.0.0.1", "want", "client");
    let ca = text(certificates.ca());
    let base = format!("https://localhost:{}", gateway.admin.port());
    eventually("it is ready", || curl(&["--cacert", &ca, &format!("{base}/health/ready")]) == 200);
    let token = "Authorization: Bearer write-token-of-16-bytes";
    let mut viewer = Command::new("curl")
        .args(["-sSN", "--max-time", "60", "--cacert", &ca, "-H", token, &format!("{base}/api/events")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(viewer.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "event: snapshot"), "the viewer gets snapshots");
    let config = tls_config(&certificates, "127.0.0.1", "want", "client");
    gateway.reload(&config.replace("write-token-of-16-bytes", "another-token-of-16"));
    assert!(lines.any(|line| line == "event: end"), "the stream ends");
    assert_eq!(lines.filter(|line| line == "event: snapshot").count(), 0);
    assert!(viewer.wait().unwrap().success(), "the gateway closed the stream");
}
