//! Streams that the client resets: their lines in the access log.

use std::io::Write;
use std::sync::{Mutex, mpsc};

use serde_json::Value;

use super::raw::{DATA, END_STREAM, ORDINARY, RST_STREAM, Raw};
use crate::support::eventually;
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request};

/// Code of a client that needs no response (RFC 9113 §7).
const CANCEL: u32 = 8;

#[test]
fn streams_that_the_client_resets_are_logged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let (sender, received) = mpsc::channel();
    let sender = Mutex::new(sender);
    let upstream = Upstream::scripted(move |stream, _| {
        while let Some(request) = read_request(stream) {
            if request.target() == "/body" {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ncut");
            }
            let _ = sender.lock().unwrap().send(request.target().to_owned());
        }
    });
    let gateway = Gateway::start(&format!(
        "access-log: {{output: '{}', format: json}}\nroutes: [{{id: a, uri: '{}', predicates: [Path=/**]}}]",
        path.display(),
        upstream.uri()
    ));
    let mut client = Raw::open(&gateway);
    let open = |client: &mut Raw, stream: u32, target: &str| {
        client.headers(stream, END_STREAM, &[&ORDINARY[..3], &[(":path", target)]].concat());
    };
    let reset = |client: &mut Raw, stream: u32| client.frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    open(&mut client, 1, "/waiting");
    assert_eq!(received.recv().unwrap(), "/waiting");
    reset(&mut client, 1);
    open(&mut client, 3, "/at-once");
    reset(&mut client, 3);
    open(&mut client, 5, "/body");
    assert_eq!(client.until(&[DATA]), (DATA, b"cut".to_vec()));
    reset(&mut client, 5);
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    eventually("three lines are written", || lines().len() == 3);
    let found = |target: &str| {
        let line = lines().into_iter().find(|line| line["target"] == target).unwrap_or_default();
        (
            line["status"].as_u64(),
            line["protocol"].as_str().map(str::to_owned),
            line["reason"].as_str().map(str::to_owned),
        )
    };
    let http2 = Some("HTTP/2.0".to_owned());
    let disconnected = Some("client-disconnected".to_owned());
    assert_eq!(found("/body"), (Some(200), http2.clone(), disconnected));
    for target in ["/waiting", "/at-once"] {
        assert_eq!(found(target), (Some(499), http2.clone(), None), "{target}");
    }
}
