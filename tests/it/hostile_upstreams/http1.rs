//! Over HTTP/1.1.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::channel;

use super::{Hostile, each, flood, is_not_whole, is_refused};
use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request, response};
use crate::upstreams::closing;

/// Sends `start`, then `unit` until the gateway closes the connection.
fn endless(name: &'static str, start: &'static str, unit: &'static str) -> Hostile {
    let stopped = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&stopped);
    let upstream = Upstream::scripted(move |stream, _| {
        if read_request(stream).is_some() && stream.write_all(start.as_bytes()).is_ok() {
            flood(stream, unit.as_bytes(), &counted);
        }
    });
    Hostile { name, upstream, stopped: Some(stopped) }
}

#[test]
fn endless_heads_and_interim_responses_become_502() {
    let cases = [
        endless("status line", "HTTP/1.1 200 ", "x"),
        endless("field", "HTTP/1.1 200 OK\r\nX: ", "x"),
        endless("fields", "HTTP/1.1 200 OK\r\n", "X: y\r\n"),
        endless("empty lines", "", "\r\n"),
        endless("interim responses", "", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
        endless("one interim response", "HTTP/1.1 100 Continue\r\n", "X: y\r\n"),
        endless("no HTTP", "", "\0"),
    ];
    each("off", &cases, is_refused);
}

#[test]
fn endless_framing_cuts_the_response() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const BODY: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n";
    const TRAILERS: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
    let cases = [
        endless("chunk size", HEAD, "0"),
        endless("later chunk size", BODY, "0"),
        endless("chunk extension", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;", "x"),
        endless("chunk extensions", BODY, "1;xxxxxxxxxxxxxxxx\r\nx\r\n"),
        endless("trailers", TRAILERS, "X: y\r\n"),
        endless("trailer", TRAILERS, "xxxx"),
    ];
    each("off", &cases, is_not_whole);
}

#[test]
fn unfinished_responses_are_not_completed() {
    let cut = |name, bytes: &'static str| Hostile::new(name, closing(bytes));
    let silent = |name, bytes: &'static str| {
        let upstream = Upstream::scripted(move |stream, _| {
            if read_request(stream).is_some() && stream.write_all(bytes.as_bytes()).is_ok() {
                let _ = read_request(stream);
            }
        });
        Hostile::new(name, upstream)
    };
    let cases = [
        Hostile::new("closes at once", Upstream::scripted(|_, _| {})),
        cut("closes instead of a response", ""),
        cut("closes in the status line", "HTTP/1.1 20"),
        cut("closes in the head", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"),
        cut("closes after the head", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"),
        cut("closes in the body", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"),
        cut("closes after a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"),
        cut("closes in the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"),
        cut("huge chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nok"),
        cut("huge length", "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nok"),
        silent("silent", ""),
        silent("silent in the head", "HTTP/1.1 200 OK\r\n"),
        silent("silent in the body", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"),
        silent("silent in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nok"),
    ];
    each("off", &cases, is_not_whole);
}

#[test]
fn bare_line_feeds_around_chunks_end_no_response_early() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let sends = |chunks: &'static str| {
        let upstream = Upstream::scripted(move |stream, _| {
            if read_request(stream).is_some() && stream.write_all([HEAD, chunks].concat().as_bytes()).is_ok() {
                let _ = read_request(stream);
            }
        });
        Hostile::new(chunks, upstream)
    };
    let cut = [
        "2\nok\r\n0\r\n\r\n",
        "2\r\nok\n0\r\n\r\n",
        "2\r\nok\r\n0\n\r\n",
        "2\r\nok\r\n0\n\n",
        "2\r\nok\r\n0\r\n\n",
        "2\r\nok\r\n0\r\nx: 1\n\n",
        "2\r\nok\r\n0\r\nx: 1\ny: 2\r\n\r\n",
    ];
    each("off", &cut.map(sends), is_not_whole);
}

#[test]
fn bytes_after_a_response_never_answer_the_next_request() {
    let forged = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    for start in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx: 1\n\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\n",
    ] {
        let upstream = Upstream::scripted(move |stream, seen| {
            while let Some(request) = read_request(stream) {
                let bytes = match request.target() {
                    "/next" => response(200, &[], b"next"),
                    _ => [start.as_bytes(), forged.as_bytes()].concat(),
                };
                seen(request);
                if stream.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        let gateway = Gateway::to(&upstream.uri());
        for _ in 0..10 {
            // A response with invalid framing is cut.
            let seen = gateway.connect().try_request("GET", "/x", &[], b"");
            assert!(seen.is_some_and(|response| response.text() != "forged"), "{start:?}");
            assert_eq!(gateway.get("/next").text(), "next", "{start:?}");
        }
    }
}

#[test]
fn an_upstream_that_never_reads_holds_back_its_client_only() {
    let (release, released) = channel::<()>();
    let released = std::sync::Mutex::new(released);
    let upstream = Upstream::scripted(move |_, _| {
        let _ = released.lock().unwrap().recv();
    });
    let healthy = Upstream::ok("healthy");
    let gateway = Gateway::start(&format!(
        "routes: [{{id: h, uri: '{}', predicates: [Path=/healthy]}}, \
         {{id: a, uri: '{}', predicates: [Path=/**], metadata: {{response-timeout: 500}}}}]",
        healthy.uri(),
        upstream.uri()
    ));
    let mut client = gateway.connect();
    let size = 256 * 1024 * 1024;
    client.send(format!("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n"));
    let block = vec![b'x'; 64 * 1024];
    let sent = (0..size / block.len()).take_while(|_| client.try_send(&block).is_ok()).count();
    assert!(sent < size / block.len(), "the whole body was taken");
    assert_eq!(gateway.get("/healthy").text(), "healthy");
    let grown = super::memory(gateway.pid());
    assert!(grown < 2 * super::MEMORY, "the gateway holds {grown} KiB");
    drop(release);
}
