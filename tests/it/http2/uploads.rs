//! Request bodies of many streams.

use super::raw::{DATA, END_STREAM, GOAWAY, HEADERS, OK, ORDINARY, Raw, WINDOW_UPDATE};
use crate::support::gateway::Gateway;
use crate::support::upstream::Upstream;

/// Sends a request with `length` bytes of a longer body, or the whole of it.
fn post(client: &mut Raw, stream: u32, path: &str, length: usize, is_whole: bool) {
    client.headers(stream, 0, &[&[(":method", "POST"), (":path", path)], &ORDINARY[1..3]].concat());
    let body = vec![b'x'; length];
    for part in body.chunks(16_000) {
        client.frame(DATA, 0, stream, part);
    }
    if is_whole {
        client.frame(DATA, END_STREAM, stream, &[]);
    }
}

#[test]
fn bodies_that_are_not_read_stop_no_other_body_of_the_connection() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = std::sync::Mutex::new(released);
    let upstream = Upstream::scripted(move |_, _| {
        let _ = released.lock().unwrap().recv();
    });
    // The first request takes the only connection, and the others wait for it.
    let gateway = Gateway::start(&format!(
        "httpclient: {{pool: {{type: fixed, max-connections: 1}}}}\n\
         routes: [{{id: a, uri: '{}', predicates: [Path=/held]}}, {{id: b, uri: 'echo:', predicates: [Path=/**]}}]",
        upstream.uri()
    ));
    let mut client = Raw::open(&gateway);
    // The window of the connection has been announced.
    client.until(&[WINDOW_UPDATE]);
    for stream in 0..120 {
        post(&mut client, 2 * stream + 1, "/held", 60_000, false);
    }
    post(&mut client, 241, "/x", 60_000, true);
    let (kind, head) = client.until(&[HEADERS, GOAWAY]);
    assert_eq!((kind, head.first()), (HEADERS, Some(&OK)));
    drop(release);
}
