//! The access log.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request};
use crate::support::{eventually, free_address};

fn yaml(output: &str, format: &str) -> String {
    format!(
        "access-log: {{output: '{output}', format: {format}}}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/a], \
         filters: [{{name: RequestRateLimiter, args: {{key-resolver: 'header:x-key', replenish-rate: 1, \
         burst-capacity: 2}}}}]}}]\n"
    )
}

/// Waits until `path` holds `count` lines; returns them.
pub(crate) fn lines(path: &Path, count: usize) -> Vec<String> {
    let read = || -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "whole lines only: {text}");
        text.lines().map(str::to_owned).collect()
    };
    eventually("the lines are written", || read().len() >= count);
    let lines = read();
    assert_eq!(lines.len(), count, "{lines:?}");
    lines
}

#[test]
fn combined_lines_have_the_ncsa_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let gateway = Gateway::start(&yaml(path.to_str().unwrap(), "combined"));
    let mut client = gateway.connect();
    let headers = [("X-Key", "k"), ("Referer", "http://example.com/"), ("User-Agent", "a \"quoted\" \u{1b}[31m")];
    let answer = client.request("GET", "/a?b=c", &headers[..2], b"");
    client.request("GET", "/nowhere", &[("User-Agent", "curl/8 \"x\" \\")], b"");
    let lines = lines(&path, 2);
    let (start, rest) = lines[0].split_once(" [").unwrap();
    assert_eq!(start, "127.0.0.1 - -");
    let (time, rest) = rest.split_once("] ").unwrap();
    assert!(time.len() == 26 && time.ends_with(" +0000") && time.as_bytes()[2] == b'/', "{time}");
    assert_eq!(rest, format!("\"GET /a?b=c HTTP/1.1\" 200 {} \"http://example.com/\" \"-\"", answer.body.len()));
    assert!(lines[1].contains("\"GET /nowhere HTTP/1.1\" 404 "), "{}", lines[1]);
    assert!(lines[1].ends_with("\"-\" \"curl/8 \\x22x\\x22 \\x5C\""), "{}", lines[1]);
}

#[test]
fn json_lines_mark_decisions_without_redis() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let redis = format!("redis: {{url: 'redis://{}'}}\n", free_address());
    let yaml = redis
        + &yaml(path.to_str().unwrap(), "json")
            .replace("burst-capacity: 2", "burst-capacity: 2, include-headers: false");
    let gateway = Gateway::start(&yaml);
    let mut client = gateway.connect();
    let statuses = [(); 3].map(|()| client.request("GET", "/a", &[("x-key", "k")], b"").status);
    client.request("GET", "/nowhere", &[], b"");
    let lines = lines(&path, 4).into_iter().map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap());
    let degraded: Vec<_> = lines.map(|line| line["degraded"].as_bool()).collect();
    assert_eq!((statuses, degraded), ([200, 200, 429], vec![Some(true), Some(true), Some(true), None]));
}

#[test]
fn json_lines_have_route_duration_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let gateway = Gateway::start(&yaml(path.to_str().unwrap(), "json"));
    let mut client = gateway.connect();
    for key in [&[("x-key", "k")][..], &[("x-key", "k")], &[("x-key", "k")], &[]] {
        client.request("GET", "/a", key, b"");
    }
    client.request("GET", "/b", &[], b"");
    let lines: Vec<serde_json::Value> =
        lines(&path, 5).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let logged: Vec<_> = lines.iter().map(|line| (line["status"].as_u64().unwrap(), line["reason"].as_str())).collect();
    assert_eq!(logged[0..2], [(200, None), (200, None)]);
    assert_eq!(logged[2..4], [(429, Some("rate-limited")), (403, Some("empty-key"))]);
    assert_eq!((logged[4].0, logged[4].1.is_some()), (404, true));
    for line in &lines[..4] {
        assert_eq!((&line["route"], &line["method"], &line["target"]), (&"a".into(), &"GET".into(), &"/a".into()));
        assert_eq!((&line["client"], &line["protocol"]), (&"127.0.0.1".into(), &"HTTP/1.1".into()));
        assert!(line["duration_ms"].as_f64().is_some_and(|ms| ms < 30_000.0));
    }
}

/// Starts a gateway that logs JSON to `path`, forwards to `uri`, and takes the end of a client's sending side for its
/// end.
fn logging(path: &Path, uri: &str) -> Gateway {
    Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, half-close: false}}\n\
         access-log: {{output: '{}', format: json}}\nroutes: [{{id: a, uri: '{uri}', predicates: [Path=/**]}}]",
        path.display()
    ))
}

#[test]
fn a_response_that_the_client_cuts_has_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let upstream = Upstream::scripted(|stream, _| {
        while let Some(request) = read_request(stream) {
            let rest: &[u8] = if request.target() == "/cut" { b"cut" } else { b"whole" };
            let _ = stream.write_all(&[b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", rest].concat());
        }
    });
    let gateway = logging(&path, &upstream.uri());
    let mut client = gateway.connect();
    assert_eq!(client.request("GET", "/whole", &[], b"").text(), "whole");
    assert_eq!(client.request("HEAD", "/nowhere/../..", &[], b"").status, 400);
    client.send("GET /cut HTTP/1.1\r\nHost: a\r\n\r\n");
    client.until(b"cut");
    drop(client);
    let lines: Vec<serde_json::Value> =
        lines(&path, 3).iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let logged: Vec<_> = lines.iter().map(|line| (line["status"].as_u64().unwrap(), line["reason"].as_str())).collect();
    assert_eq!(logged, [(200, None), (400, Some("bad-request")), (200, Some("client-disconnected"))]);
    assert_eq!(lines[2]["bytes"], 3);
}

#[test]
fn a_request_that_times_out_has_the_timeout_as_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let upstream = Upstream::scripted(|stream, _| {
        let _ = std::io::Read::read(stream, &mut [0]);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\npart");
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, body-timeout: 100ms}}\nhttpclient: {{read-timeout: 100ms}}\n\
         access-log: {{output: '{}', format: json}}\nroutes:\n\
         - {{id: a, uri: 'http://{}', predicates: [Path=/a]}}\n- {{id: b, uri: 'http://{}', predicates: [Path=/b]}}",
        path.display(),
        upstream.address,
        Upstream::ok("").address,
    ));
    for request in ["GET /a", "POST /a", "POST /b"] {
        let mut client = gateway.connect();
        client.send(format!("{request} HTTP/1.1\r\nHost: a\r\n"));
        let body: &[u8] = if request.starts_with("POST") { b"Content-Length: 9\r\n\r\nhalf" } else { b"\r\n" };
        client.send(body);
        assert!(!client.rest().is_empty());
    }
    let lines = lines(&path, 3).into_iter().map(|line| serde_json::from_str::<serde_json::Value>(&line).unwrap());
    let logged: Vec<_> =
        lines.map(|line| (line["status"].as_u64(), line["reason"].as_str().map(str::to_owned))).collect();
    let reason = |status, reason: &str| (Some(status), Some(reason.to_owned()));
    assert_eq!(logged, [reason(200, "read-timeout"), reason(200, "read-timeout"), reason(408, "body-timeout")]);
}

#[test]
fn a_tunnel_that_its_idle_limit_closes_has_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let upstream = Upstream::scripted(|stream, _| {
        let Some(_) = read_request(stream) else { return };
        let _ =
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let gateway = Gateway::start(&format!(
        "server: {{address: 127.0.0.1, workers: 1, tunnel-idle-timeout: 100ms}}\n\
         access-log: {{output: '{}', format: json}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        path.display(),
        upstream.uri(),
    ));
    let mut client = gateway.connect();
    client.send("GET /t HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().unwrap().status, 101);
    let line: serde_json::Value = serde_json::from_str(&lines(&path, 1)[0]).unwrap();
    assert_eq!((&line["status"], &line["reason"]), (&101.into(), &"tunnel-idle-timeout".into()));
}

#[test]
fn the_line_of_a_tunnel_is_written_when_it_closes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let upstream = Upstream::scripted(|stream, _| {
        let Some(_) = read_request(stream) else { return };
        let _ =
            stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
        let _ = std::io::copy(stream, &mut std::io::sink());
    });
    let gateway = logging(&path, &upstream.uri());
    let mut client = gateway.connect();
    client.send("GET /t HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(client.response().unwrap().status, 101);
    let open = Instant::now();
    eventually("the request is counted", || {
        gateway.metric("spring_cloud_gateway_requests_seconds_count", &["routeId=\"a\""]) == 1.0
    });
    let held = open.elapsed();
    drop(client);
    let line: serde_json::Value = serde_json::from_str(&lines(&path, 1)[0]).unwrap();
    assert_eq!(line["status"], 101);
    assert!(line["duration_ms"].as_f64().unwrap() >= held.as_secs_f64() * 1000.0, "{line}, held for {held:?}");
}

#[test]
fn sighup_reopens_a_rotated_access_log() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let yaml = yaml(path.to_str().unwrap(), "combined");
    let gateway = Gateway::start(&yaml);
    assert_eq!(gateway.get("/one").status, 404);
    lines(&path, 1);
    std::fs::rename(&path, &moved).unwrap();
    assert_eq!(gateway.get("/two").status, 404);
    assert!(lines(&moved, 2)[1].contains("/two"), "nothing is lost in between");
    gateway.reload(&yaml);
    eventually("the file exists again", || path.exists());
    assert_eq!(gateway.get("/three").status, 404);
    assert!(lines(&path, 1)[0].contains("/three"));
    lines(&moved, 2);
}

#[test]
fn every_line_is_written_before_exit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.log");
    let mut gateway = Gateway::start_under(&format!("exec >'{}'", path.display()), &yaml("stdout", "combined"));
    let mut client = gateway.connect();
    for _ in 0..500 {
        client.request("GET", "/nowhere", &[], b"");
    }
    drop(client);
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    lines(&path, 500);
}

#[test]
fn a_full_disk_loses_log_lines_but_fails_no_request() {
    let gateway = Gateway::start(&yaml("/dev/full", "combined"));
    for _ in 0..3 {
        assert_eq!(gateway.get("/nowhere").status, 404);
    }
    let line = gateway.logged("log write failed, lines are lost");
    assert!(line.contains("log=\"access-log\""), "{line}");
    eventually("lost lines are counted", || gateway.metric("tollgate_access_log_lost_lines_total", &[]) == 3.0);
}

#[test]
fn requests_that_match_an_exclusion_get_no_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    for format in ["combined", "json"] {
        let yaml = |exclude: &str| {
            format!(
                "access-log: {{output: '{}', format: {format}, exclude: {exclude}}}\nmanagement: {{on-traffic-port: true}}\n\
                 routes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n",
                path.display()
            )
        };
        let gateway = Gateway::start(&yaml("['Path=/health/**,/actuator/**', {all: [Method=HEAD, Header=x-probe]}]"));
        let mut client = gateway.connect();
        for target in ["/health/live", "/actuator/health", "/health/%6Cive", "/a/../health/x"] {
            client.request("GET", target, &[], b"");
        }
        client.request("GET", "/1?/health/live", &[], b"");
        client.request("GET", "/health/../2", &[], b"");
        client.send("HEAD /3 HTTP/1.1\r\nHost: a\r\nX-Probe: 1\r\n\r\nGET /health/%ZZ HTTP/1.1\r\nHost: a\r\n\r\n");
        let logged = lines(&path, 3);
        assert!(logged[0].contains("/1?") && logged[1].contains("/2") && logged[2].contains("%ZZ"), "{logged:?}");
        assert_eq!(
            gateway.metric("spring_cloud_gateway_requests_seconds_count", &["routeId=\"a\""]),
            6.0,
            "they are counted"
        );
        gateway.reload(&yaml("[]"));
        gateway.get("/health/live");
        lines(&path, 4);
        std::fs::remove_file(&path).unwrap();
    }
}
