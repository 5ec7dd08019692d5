//! Broken, ambiguous and unusual responses of upstreams, and their form at the client.

use std::io::Write;
use std::time::Duration;

use socket2::SockRef;

use crate::support::gateway::Gateway;
use crate::support::upstream::{Upstream, read_request, response};
use crate::upstreams::closing;

#[test]
fn a_truncated_response_is_seen_as_incomplete() {
    for (bytes, body) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "half"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "half"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n", "half"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n", "half"),
    ] {
        let upstream = closing(bytes);
        let gateway = Gateway::to(&upstream.uri());
        let mut client = gateway.connect();
        let answer = client.request("GET", "/x", &[], b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, body), "{bytes:?}");
        assert!(!answer.complete, "{bytes:?}");
        assert!(client.is_closed());
        assert_eq!(upstream.requests().len(), 1, "a partly answered request is not repeated");
    }
}

#[test]
fn a_reset_response_is_seen_as_incomplete() {
    let upstream = Upstream::scripted(|stream, seen| {
        let Some(request) = read_request(stream) else { return };
        seen(request);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        let _ = SockRef::from(&*stream).set_linger(Some(Duration::ZERO));
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    let answer = client.request("GET", "/x", &[], b"");
    assert!(!answer.complete || answer.status == 502, "{answer:?}");
    assert!(answer.status == 502 || client.is_closed());
}

#[test]
fn a_response_without_a_length_ends_with_its_connection() {
    for version in ["1.1", "1.0"] {
        let upstream = closing(format!("HTTP/{version} 200 OK\r\nX: y\r\n\r\nuntil the end"));
        let gateway = Gateway::to(&upstream.uri());
        let mut client = gateway.connect();
        for _ in 0..2 {
            let answer = client.request("GET", "/x", &[], b"");
            assert_eq!((answer.text().as_str(), answer.complete), ("until the end", true));
        }
        assert_eq!(upstream.connections(), 2);
    }
}

#[test]
fn a_response_with_length_and_chunks_reaches_the_client_with_one_framing() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ] {
        let upstream = Upstream::start(move |_| bytes.into());
        let gateway = Gateway::to(&upstream.uri());
        let answer = gateway.get("/x");
        if answer.status == 200 {
            assert!(answer.header("content-length").is_none(), "{answer:?}");
            assert_eq!((answer.text().as_str(), answer.complete), ("hello", true));
        } else {
            assert_eq!(answer.status, 502);
        }
    }
}

#[test]
fn an_invalid_response_becomes_502() {
    let huge = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "y".repeat(80 * 1024));
    let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "x: y\r\n".repeat(5000));
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk",
        "HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nokk",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok",
        "HTTP/1.1 two hundred\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/3.0 200 OK\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH_9.9\r\n",
        "\u{15}\u{3}\u{1}\0\u{2}\u{2}F",
        "hello\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: a\rb\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: y\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX y: z\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        &huge,
        &many,
    ] {
        let upstream = closing(bytes);
        let gateway = Gateway::to(&upstream.uri());
        let mut client = gateway.connect();
        let shown = &bytes[..bytes.len().min(80)];
        let answer = client.request("POST", "/x", &[], b"body");
        assert_eq!(answer.status, 502, "{shown:?}");
        assert_eq!(client.request("POST", "/x", &[], b"body").status, 502, "the client connection stays open");
        assert_eq!((upstream.requests().len(), upstream.connections()), (2, 2), "{shown:?}");
    }
}

/// Sends the response with the number that is the request's path.
fn numbered(responses: Vec<String>) -> Upstream {
    Upstream::start(move |request| responses[request.target()[1..].parse::<usize>().unwrap()].clone().into())
}

#[test]
fn a_transfer_coding_other_than_chunked_becomes_502() {
    let fields = [
        "Transfer-Encoding: gzip",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, gzip",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked;a=b",
        "Transfer-Encoding:",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nTransfer-Encoding: gzip",
    ];
    let response = |field| format!("HTTP/1.1 200 OK\r\n{field}\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    let upstream = numbered(fields.map(response).to_vec());
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for (n, field) in fields.iter().enumerate() {
        for method in ["GET", "POST", "HEAD"] {
            assert_eq!(client.request(method, &format!("/{n}"), &[], b"").status, 502, "{method}: {field:?}");
        }
    }
    let upstream = numbered(vec![response("transfer-encoding:  Chunked ")]);
    let answer = Gateway::to(&upstream.uri()).get("/0");
    assert_eq!((answer.status, answer.text().as_str(), answer.complete), (200, "hello", true));
}

#[test]
fn an_invalid_first_chunk_becomes_502() {
    let chunks = ["zz\r\nhello", "-5\r\nhello\r\n", "5;a\nhello\r\n", "\r\n", "fffffffffffffffff\r\nhello\r\n"];
    let response = |chunk| format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
    let upstream = numbered(chunks.map(response).to_vec());
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for (n, chunk) in chunks.iter().enumerate() {
        assert_eq!(client.request("GET", &format!("/{n}"), &[], b"").status, 502, "{chunk:?}");
    }
    assert_eq!(upstream.requests().len(), chunks.len(), "an invalid response is not asked for again");
}

#[test]
fn folded_fields_and_spaces_before_colons_are_repaired_or_refused() {
    for bytes in [
        "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok",
    ] {
        let upstream = closing(bytes);
        let gateway = Gateway::to(&upstream.uri());
        let mut client = gateway.connect();
        client.send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let raw = String::from_utf8(client.rest()).unwrap();
        let cleaned = raw.starts_with("HTTP/1.1 200") && !raw.contains(" :") && !raw.contains("\r\n b");
        assert!(cleaned || raw.starts_with("HTTP/1.1 502"), "{bytes:?}: {raw:?}");
    }
}

#[test]
fn repeated_equal_lengths_reach_the_client_once() {
    for length in ["Content-Length: 2\r\nContent-Length: 2", "Content-Length: 2, 2"] {
        let upstream = closing(format!("HTTP/1.1 200 OK\r\n{length}\r\n\r\nok"));
        let gateway = Gateway::to(&upstream.uri());
        let answer = gateway.get("/x");
        if answer.status == 200 {
            assert_eq!((answer.all("content-length"), answer.text().as_str()), (vec!["2"], "ok"), "{length:?}");
        } else {
            assert_eq!(answer.status, 502);
        }
    }
}

#[test]
fn interim_responses_are_not_taken_for_the_final_one() {
    let upstream = Upstream::start(|_| {
        let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
        [interim.as_bytes(), &response(200, &[], b"final")].concat()
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for _ in 0..2 {
        let answer = client.request("GET", "/x", &[], b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, "final"));
        assert_eq!(answer.header("link"), None);
    }
}

#[test]
fn a_response_without_a_body_is_forwarded_without_one() {
    for (method, bytes) in [
        ("GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nEXTRA"),
        ("GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nEXTRA"),
        ("HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEXTRA"),
        ("GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nEXTRA\r\n0\r\n\r\n"),
    ] {
        let upstream =
            Upstream::start(
                move |request| {
                    if request.target() == "/next" { response(200, &[], b"next") } else { bytes.into() }
                },
            );
        let gateway = Gateway::to(&upstream.uri());
        let mut client = gateway.connect();
        for _ in 0..5 {
            let answer = client.request(method, "/x", &[], b"");
            assert!([200, 204, 304].contains(&answer.status), "{answer:?}");
            assert!(answer.status != 204 || answer.header("content-length").is_none(), "{answer:?}");
            assert!(answer.status != 204 || answer.header("transfer-encoding").is_none(), "{answer:?}");
            // A leaked byte of the body would come before this response.
            let next = client.request("GET", "/next", &[], b"");
            assert_eq!((next.status, next.text().as_str()), (200, "next"), "after {method} {bytes:?}");
        }
    }
}

#[test]
fn trailers_are_forwarded() {
    let upstream = Upstream::start(|_| {
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 42\r\n\r\n"
            .into()
    });
    let gateway = Gateway::to(&upstream.uri());
    let mut client = gateway.connect();
    for _ in 0..2 {
        let answer = client.request("GET", "/x", &[("TE", "trailers")], b"");
        assert_eq!((answer.text().as_str(), answer.complete), ("ok", true));
        assert_eq!(answer.trailers, [("x-sum".to_owned(), "42".to_owned())]);
        assert_eq!(answer.header("x-sum"), None, "never merged into the head");
    }
    assert_eq!(upstream.requests()[0].header("te"), Some("trailers"));
    assert_eq!(upstream.requests()[0].header("connection"), Some("te"), "RFC 9110 §10.1.4");
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn hop_by_hop_fields_are_removed_and_set_cookie_fields_stay_separate() {
    let upstream = Upstream::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\n\
                    Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nSet-Cookie: a=1; Path=/\r\nX-Kept: 1\r\n\
                    Set-Cookie: b=2, c=3\r\nSet-Cookie: a=4\r\nContent-Length: 2\r\n\r\nok";
        head.into()
    });
    let gateway = Gateway::to(&upstream.uri());
    let answer = gateway.get("/x");
    assert_eq!(answer.all("set-cookie"), ["a=1; Path=/", "b=2, c=3", "a=4"]);
    assert_eq!(answer.header("x-kept"), Some("1"));
    for gone in ["keep-alive", "x-hop", "proxy-authenticate", "upgrade"] {
        assert_eq!(answer.header(gone), None, "{gone}");
    }
}

#[test]
fn error_responses_of_the_upstream_are_unchanged() {
    for status in [404, 429, 480, 500, 503, 599] {
        let upstream = Upstream::start(move |_| {
            response(status, &[("Retry-After", "7"), ("X-RateLimit-Remaining", "3")], b"its own")
        });
        let gateway = Gateway::to(&upstream.uri());
        let answer = gateway.get("/x");
        assert_eq!((answer.status, answer.text().as_str()), (status, "its own"));
        assert_eq!(answer.header("retry-after"), Some("7"));
        assert_eq!(answer.all("x-ratelimit-remaining"), ["3"]);
    }
}
