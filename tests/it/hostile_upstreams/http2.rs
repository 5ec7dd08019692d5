//! Over HTTP/2.

use super::{Hostile, each, each_within, is_not_whole, is_refused, is_whole};
use crate::support::raw_http2::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, NO_ERROR, OK, PING, RST_STREAM, RawHttp2, SETTINGS,
    WINDOW_UPDATE, fields,
};

const PRIORITY: u8 = 2;
const PUSH_PROMISE: u8 = 5;

/// Calls `script` with each stream.
fn streams(name: &'static str, script: impl Fn(&mut RawHttp2<'_>, u32) + Send + Sync + 'static) -> Hostile {
    let upstream = RawHttp2::upstream(move |connection| {
        while let Some((stream, _)) = connection.request() {
            script(connection, stream);
            if !connection.flush() {
                return;
            }
        }
    });
    Hostile::new(name, upstream)
}

/// Sends `count` frames on the stream, or on the connection, then a complete response.
fn flooded(name: &'static str, kind: u8, of_stream: bool, payload: &'static [u8]) -> Hostile {
    streams(name, move |connection, stream| {
        if kind == DATA {
            connection.head(stream, 0);
        }
        for _ in 0..50_000 {
            connection.frame(kind, 0, if of_stream { stream } else { 0 }, payload);
        }
        if !connection.flush() {
            return;
        }
        if kind == DATA {
            connection.data(stream, END_STREAM, b"ok");
        } else {
            connection.respond(stream, b"ok");
        }
    })
}

#[test]
fn floods_of_frames_delay_their_own_request_only() {
    let cases = [
        flooded("PING", PING, false, b"12345678"),
        flooded("SETTINGS", SETTINGS, false, &[0, 3, 0, 0, 0, 100]),
        flooded("PRIORITY", PRIORITY, true, &[0, 0, 0, 0, 16]),
        flooded("unknown frames", 0x42, true, b"unknown"),
        flooded("WINDOW_UPDATE", WINDOW_UPDATE, true, &[0, 0, 0, 1]),
    ];
    each_within(20_000, "prior-knowledge", &cases, is_whole);
}

#[test]
fn endless_heads_and_interim_responses_become_502() {
    let cases = [
        streams("interim responses", |connection, stream| {
            let block = fields(&[(":status", "103"), ("link", "</a>")]);
            for _ in 0..50_000 {
                connection.frame(HEADERS, END_HEADERS, stream, &block);
            }
            connection.respond(stream, b"ok");
        }),
        streams("CONTINUATION", |connection, stream| {
            connection.frame(HEADERS, 0, stream, OK);
            for _ in 0..50_000 {
                connection.frame(CONTINUATION, 0, stream, &fields(&[("x-a", "b")]));
            }
            connection.frame(CONTINUATION, END_HEADERS | END_STREAM, stream, &[]);
        }),
        streams("empty CONTINUATION", |connection, stream| {
            connection.frame(HEADERS, 0, stream, OK);
            for _ in 0..50_000 {
                connection.frame(CONTINUATION, 0, stream, &[]);
            }
            connection.frame(CONTINUATION, END_HEADERS | END_STREAM, stream, &[]);
        }),
        streams("large field", |connection, stream| {
            let block = [OK, &fields(&[("x-large", &"x".repeat(100_000))])].concat();
            let parts: Vec<_> = block.chunks(16 * 1024).collect();
            for (n, part) in parts.iter().enumerate() {
                let (kind, start) = if n == 0 { (HEADERS, END_STREAM) } else { (CONTINUATION, 0) };
                let end = if n + 1 == parts.len() { END_HEADERS } else { 0 };
                connection.frame(kind, start | end, stream, part);
            }
        }),
    ];
    each("prior-knowledge", &cases, is_refused);
}

/// Sends a response head with these fields and a body.
fn head(name: &'static str, block: Vec<u8>) -> Hostile {
    streams(name, move |connection, stream| {
        connection.frame(HEADERS, END_HEADERS, stream, &block).data(stream, END_STREAM, b"ok");
    })
}

#[test]
fn malformed_heads_become_502() {
    let cases = [
        head("no status", fields(&[("x-a", "b")])),
        head("two statuses", [OK, OK].concat()),
        head("status of letters", fields(&[(":status", "abc")])),
        head("status of four digits", fields(&[(":status", "2000")])),
        head("status after a field", fields(&[("x-a", "b"), (":status", "200")])),
        head("unknown pseudo-header field", fields(&[(":status", "200"), (":x", "y")])),
        head("upper case", fields(&[(":status", "200"), ("X-A", "b")])),
        head("line break", fields(&[(":status", "200"), ("x-a", "b\r\nx-b: c")])),
        head("Transfer-Encoding", fields(&[(":status", "200"), ("transfer-encoding", "chunked")])),
        head("Connection", fields(&[(":status", "200"), ("connection", "x-a"), ("x-a", "b")])),
        head("length beyond the body", fields(&[(":status", "200"), ("content-length", "x")])),
        head("switching protocols", fields(&[(":status", "101")])),
        head("unknown index", vec![0xff, 0xff, 0x7f]),
        head("incomplete field", vec![0x88, 0x00, 0x7f]),
    ];
    each("prior-knowledge", &cases, is_refused);
}

#[test]
fn broken_streams_and_connections_do_not_look_complete() {
    let after_head = |name, frame: fn(&mut RawHttp2<'_>, u32)| {
        streams(name, move |connection, stream| {
            frame(connection.head(stream, 0).data(stream, 0, b"o"), stream);
        })
    };
    let cases = [
        after_head("NO_ERROR", |connection, stream| {
            connection.reset(stream, NO_ERROR);
        }),
        after_head("INTERNAL_ERROR", |connection, stream| {
            connection.reset(stream, 2);
        }),
        after_head("silent", |_, _| {}),
        after_head("second head", |connection, stream| {
            connection.head(stream, 0);
        }),
        after_head("DATA without stream", |connection, _| {
            connection.data(0, 0, b"k");
        }),
        after_head("DATA on an idle stream", |connection, stream| {
            connection.data(stream + 20, END_STREAM, b"k");
        }),
        after_head("HEADERS on an even stream", |connection, _| {
            connection.head(2, END_STREAM);
        }),
        after_head("PUSH_PROMISE", |connection, stream| {
            connection.frame(PUSH_PROMISE, END_HEADERS, stream, &[&[0, 0, 0, 2], OK].concat());
        }),
        after_head("large frame", |connection, stream| {
            connection.data(stream, END_STREAM, &[0; 16_385]);
        }),
        after_head("padding beyond the frame", |connection, stream| {
            connection.frame(DATA, END_STREAM | 8, stream, &[5, b'k']);
        }),
        after_head("short RST_STREAM", |connection, stream| {
            connection.frame(RST_STREAM, 0, stream, &[0]);
        }),
        after_head("short GOAWAY", |connection, _| {
            connection.frame(GOAWAY, 0, 0, &[0]);
        }),
        after_head("window overflow", |connection, stream| {
            connection.frame(WINDOW_UPDATE, 0, stream, &i32::MAX.to_be_bytes());
        }),
        after_head("window of zero", |connection, _| {
            connection.frame(WINDOW_UPDATE, 0, 0, &[0; 4]);
        }),
        after_head("closes", |connection, _| {
            connection.flush();
        }),
        flooded("empty DATA", DATA, true, b""),
        streams("longer than its length", |connection, stream| {
            let block = fields(&[(":status", "200"), ("content-length", "1")]);
            connection.frame(HEADERS, END_HEADERS, stream, &block).data(stream, END_STREAM, b"ok");
        }),
        streams("shorter than its length", |connection, stream| {
            let block = fields(&[(":status", "200"), ("content-length", "3")]);
            connection.frame(HEADERS, END_HEADERS, stream, &block).data(stream, END_STREAM, b"ok");
        }),
        streams("beyond the window", |connection, stream| {
            connection.head(stream, 0);
            for _ in 0..2000 {
                connection.data(stream, 0, &[b'x'; 16 * 1024]);
            }
        }),
        streams("DATA before HEADERS", |connection, stream| {
            connection.data(stream, END_STREAM, b"ok");
        }),
    ];
    each("prior-knowledge", &cases, is_not_whole);
}

/// Ends the stream with trailers of `count` fields, of 100 bytes each in the count of RFC 9113.
fn end_with_trailers(connection: &mut RawHttp2<'_>, stream: u32, count: usize) {
    let names: Vec<String> = (0..count).map(|n| format!("x-{n:06}")).collect();
    let value = "v".repeat(60);
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), value.as_str())).collect();
    let block = fields(&all);
    let parts: Vec<_> = block.chunks(16_384).collect();
    for (at, part) in parts.iter().enumerate() {
        let is_last = at + 1 == parts.len();
        let (kind, flags) = if at == 0 { (HEADERS, END_STREAM) } else { (CONTINUATION, 0) };
        connection.frame(kind, flags | if is_last { END_HEADERS } else { 0 }, stream, part);
    }
}

#[test]
fn trailers_above_the_limit_end_no_response() {
    let ends_with = |name, count| {
        streams(name, move |connection, stream| {
            let head = fields(&[(":status", "200"), ("trailer", "x-000000")]);
            connection.frame(HEADERS, END_HEADERS, stream, &head).data(stream, 0, b"ok");
            end_with_trailers(connection, stream, count);
        })
    };
    each("prior-knowledge", &[ends_with("within", 150)], |case, response| {
        let response = response.unwrap();
        assert!(response.complete && response.trailers.len() <= 1, "{case}: {response:?}");
    });
    // The first ones fit into the limit that h2 gets, the last ones do not.
    each("prior-knowledge", &[ends_with("above", 1000), ends_with("far above", 3000)], is_not_whole);
}

#[test]
fn connections_that_take_no_request_become_502_or_504() {
    let cases = [
        Hostile::new("closes after its SETTINGS", RawHttp2::upstream(|_| {})),
        Hostile::new(
            "GOAWAY at once",
            RawHttp2::upstream(|connection| {
                connection.go_away(0, NO_ERROR).flush();
                connection.drain();
            }),
        ),
        streams("GOAWAY with an error", |connection, _| {
            connection.go_away(0, 11);
        }),
        Hostile::new(
            "no streams",
            RawHttp2::upstream(|connection| {
                connection.frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 0]).flush();
                connection.drain();
            }),
        ),
        Hostile::new("never answers", RawHttp2::upstream(|connection| connection.drain())),
        Hostile::new("no HTTP/2", crate::support::upstream::Upstream::ok("ok")),
    ];
    each("prior-knowledge", &cases, is_refused);
}

#[test]
fn misplaced_pseudo_header_fields_reach_no_client() {
    let cases = [
        head("request fields", fields(&[(":status", "200"), (":path", "/x")])),
        streams("trailers", |connection, stream| {
            let block = fields(&[(":status", "500"), (":path", "/x"), ("x-sum", "1")]);
            let head = fields(&[(":status", "200"), ("trailer", "x-sum")]);
            connection.frame(HEADERS, END_HEADERS, stream, &head).data(stream, 0, b"ok");
            connection.frame(HEADERS, END_HEADERS | END_STREAM, stream, &block);
        }),
    ];
    each("prior-knowledge", &cases, |case, response| {
        let response = response.unwrap();
        let names = response.headers.iter().chain(&response.trailers).map(|(name, _)| name);
        assert!(names.clone().all(|name| !name.starts_with(':')), "{case}: {response:?}");
        assert_ne!(response.status, 500, "{case}");
        let is_read = response.header("trailer").is_none() || !response.trailers.is_empty();
        assert!(is_read || !response.complete, "{case}: {response:?}");
    });
}
