//! End of a request body: messages that leave it in doubt are refused (RFC 9112 §6).

use crate::malformed::{SMUGGLED, all_refused, post};
use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

#[test]
fn a_length_beside_a_transfer_coding_counts_for_nothing_and_closes_the_connection() {
    // RFC 9112 §6.3: either the chunks are used and the length is dropped, or 400; the connection closes in both cases.
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    for lines in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 0\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\ntransfer-encoding: Chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\nConnection: keep-alive",
    ] {
        for chunks in ["0\r\n\r\n", "2\r\nab\r\n0\r\n\r\n"] {
            let before = upstream.requests().len();
            let mut client = gateway.connect();
            client.send([post(lines, chunks).as_str(), SMUGGLED].concat());
            let status = client.response().unwrap().status;
            assert!(client.is_closed(), "{lines:?}");
            let requests = upstream.requests().split_off(before);
            if status == 200 {
                assert_eq!(requests.len(), 1, "{lines:?}: {requests:?}");
                assert!(requests[0].header("content-length").is_none_or(|length| length == "0"), "{requests:?}");
                assert!(requests[0].body.is_empty() || requests[0].body == b"ab", "{requests:?}");
            } else {
                assert_eq!((status, requests.len()), (400, 0), "{lines:?}");
            }
        }
    }
}

#[test]
fn transfer_codings_other_than_chunked_are_refused_in_any_spelling() {
    let codings: &[&str] = &[
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: x, chunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: 'chunked'",
        "Transfer-Encoding: chunked;q=1",
        "Transfer-Encoding: chunked x",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding:",
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        " Transfer-Encoding: chunked",
        "Transfer-Encoding:\r\n chunked",
        "Transfer-Encoding: chunked\u{b}",
        "Transfer-Encoding: \u{c}chunked",
        "Transfer-Encoding: chun\0ked",
        "Transfer-Encoding: chunked\rX: y",
        "Transfer-Encoding: \u{212a}chunked",
        "Transfer-\u{17f}ncoding: chunked\r\nTransfer-Encoding: x",
    ];
    let with_chunks = codings.iter().map(|coding| post(coding, "5\r\nhello\r\n0\r\n\r\n"));
    let with_length = codings.iter().map(|coding| post(&format!("Content-Length: 5\r\n{coding}"), "hello"));
    all_refused(&[400, 501], with_chunks.chain(with_length));
}

#[test]
fn http_1_0_has_no_chunks() {
    let request = "POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    all_refused(&[400, 501], [request]);
}

#[test]
fn a_content_length_that_is_not_one_number_is_refused() {
    all_refused(
        &[400],
        [
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 6\r\nContent-Length: 5",
            "Content-Length: 0\r\nContent-Length: 5",
            "Content-Length: 5, 6",
            "Content-Length: 5,",
            "Content-Length: +5",
            "Content-Length: -5",
            "Content-Length: 0x5",
            "Content-Length: 5.0",
            "Content-Length: 5 5",
            "Content-Length: five",
            "Content-Length:",
            "Content-Length: 99999999999999999999",
            "Content-Length: 18446744073709551616",
            "Content-Length : 5",
            "Content-Length\u{b}: 5",
        ]
        .map(|lines| post(lines, "hello")),
    );
}

#[test]
fn repeated_equal_content_lengths_are_merged_or_refused() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    for lines in ["Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5, 5", "Content-Length: 005"] {
        let before = upstream.requests().len();
        let mut client = gateway.connect();
        client.send(post(lines, "hello"));
        let status = client.response().unwrap().status;
        let requests = upstream.requests();
        if status == 400 {
            assert_eq!(requests.len(), before);
        } else {
            let request = requests.last().unwrap();
            assert_eq!((status, request.all("content-length").len()), (200, 1), "{lines:?}: {request:?}");
            assert_eq!(request.body, b"hello");
        }
    }
}

#[test]
fn an_invalid_chunk_is_a_client_error_and_is_not_completed_upstream() {
    let long = format!("5;{}\r\nhello\r\n0\r\n\r\n", "x".repeat(100_000));
    let many = format!("{}0\r\n\r\n", "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n".repeat(4000));
    let trailers = format!("5\r\nhello\r\n0\r\n{}\r\n", "x-a: b\r\n".repeat(20_000));
    all_refused(
        &[400, 413, 431],
        [
            "G\r\nhello\r\n0\r\n\r\n",
            "-5\r\nhello\r\n0\r\n\r\n",
            "+5\r\nhello\r\n0\r\n\r\n",
            "0x5\r\nhello\r\n0\r\n\r\n",
            "5h\r\nhello\r\n0\r\n\r\n",
            "\r\nhello\r\n0\r\n\r\n",
            ";x\r\nhello\r\n0\r\n\r\n",
            "5\nhello\r\n0\r\n\r\n",
            "5\rhello\r\n0\r\n\r\n",
            "5;a\nb\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
            "5\r\nhello\n0\r\n\r\n",
            "5\r\nhello!\r\n0\r\n\r\n",
            "4\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello\r\n0\r\nno colon\r\n\r\n",
            "5\r\nhello\r\n0\r\nx : y\r\n\r\n",
            "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
            "10000000000000005\r\nhello\r\n0\r\n\r\n",
            &long,
            &many,
            &trailers,
        ]
        .map(|chunks| post("Transfer-Encoding: chunked", chunks)),
    );
}

#[test]
fn bare_line_feeds_around_chunks_and_trailers_smuggle_nothing() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    let next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut expected = Vec::new();
    for (chunks, is_accepted) in [
        ("5\nhello\r\n0\r\n\r\n", false),
        ("5\r\nhello\n0\r\n\r\n", false),
        ("5\r\nhello\r\n0\n\r\n", false),
        ("5\r\nhello\r\n0\n\n", false),
        ("5;a\rb\r\nhello\r\n0\r\n\r\n", false),
        ("5\r\nhello\r\n0\r\nx-a: 1\nx-b: 2\r\n\r\n", false),
        ("5\r\nhello\r\n0\r\nx-a: 1\rx-b: 2\r\n\r\n", false),
        ("5\r\nhello\r\n0\r\nx-a: 1\r\n x-b: 2\r\n\r\n", false),
        // An empty line ends the trailers only with CR LF; until then, bytes belong to them and are dropped.
        ("5\r\nhello\r\n0\r\n\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("5\r\nhello\r\n0\r\nx-a: 1\n\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("5\r\nhello\r\n0\r\nx-a: 1\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("5\r\nhello\r\n0\r\nx-a: 1\r\n\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n", true),
    ] {
        let mut client = gateway.connect();
        client.send([post("Transfer-Encoding: chunked", chunks).as_str(), next].concat());
        let status = client.response().unwrap().status;
        assert_eq!(status, if is_accepted { 200 } else { 400 }, "{chunks:?}");
        if is_accepted {
            assert_eq!(client.response().unwrap().status, 200, "{chunks:?}");
            expected.extend([("/x", &b"hello"[..]), ("/next", b"")]);
        } else {
            assert!(client.is_closed(), "{chunks:?}");
        }
    }
    let requests = upstream.requests();
    let seen: Vec<_> = requests.iter().map(|request| (request.target(), &*request.body)).collect();
    assert_eq!(seen, expected);
    assert!(requests.iter().all(|request| request.header("x-a").is_none()));
}

#[test]
fn a_truncated_body_is_not_completed_upstream() {
    let upstream = Upstream::ok("reached");
    let gateway = Gateway::to(&upstream.uri());
    for request in [
        post("Content-Length: 10", "hello"),
        post("Transfer-Encoding: chunked", "5\r\nhel"),
        post("Transfer-Encoding: chunked", "5\r\nhello\r\n"),
        post("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n"),
        post("Transfer-Encoding: chunked", "5\r\nhello\r\n0"),
        post("Transfer-Encoding: chunked", "5"),
        post("Transfer-Encoding: chunked", ""),
    ] {
        let mut client = gateway.connect();
        client.send(&request);
        client.finish();
        if let Some(answer) = client.response() {
            assert_eq!(answer.status, 400, "{request:?}");
        }
        assert!(client.is_closed());
    }
    assert_eq!(gateway.get("/last").status, 200);
    assert_eq!(upstream.targets(), ["/last"]);
}
