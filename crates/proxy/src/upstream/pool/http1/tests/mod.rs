//! Responses in pieces: the same reading as hyper's client, at every cut.
#![allow(clippy::unwrap_used)]

mod exchanges;

use std::collections::VecDeque;
use std::sync::Arc;

use http_body::Body as _;
use hyper::ext::ReasonPhrase;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::LocalSet;

use super::*;

const LIMITS: HeadLimits = HeadLimits { max_bytes: 8192, max_fields: 20 };

/// Socket of an upstream that sends these pieces once it has a request, one at each wake-up, and then closes the connection.
#[derive(Default)]
struct Scripted {
    pieces: VecDeque<Vec<u8>>,
    is_due: bool,
    written: Arc<Mutex<Vec<u8>>>,
    fails_writes: bool,
}

impl Scripted {
    fn new(pieces: &[&[u8]]) -> Self {
        let pieces = pieces.iter().filter(|piece| !piece.is_empty()).map(|piece| piece.to_vec()).collect();
        Self { pieces, ..Self::default() }
    }
}

impl AsyncRead for Scripted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let has_request = self.fails_writes || self.written.lock().windows(4).any(|end| end == b"\r\n\r\n");
        if !has_request || !std::mem::replace(&mut self.is_due, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.is_due = false;
        if let Some(mut piece) = self.pieces.pop_front() {
            let rest = piece.split_off(piece.len().min(buf.remaining()));
            buf.put_slice(&piece);
            if !rest.is_empty() {
                self.pieces.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.fails_writes {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.written.lock().extend_from_slice(buf);
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Part of the exchange that failed.
#[derive(Debug, Default, PartialEq, Eq)]
enum End {
    /// The upstream closed the connection instead of a response.
    NoResponse,
    InvalidHead,
    BrokenBody,
    #[default]
    Whole,
}

/// Response as its client sees it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    status: u16,
    reason: Option<ReasonPhrase>,
    headers: HeaderMap,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
    end: End,
}

impl Seen {
    fn head<B>(response: &Response<B>) -> Self {
        let (status, reason) = (response.status().as_u16(), response.extensions().get().cloned());
        Self { status, reason, headers: response.headers().clone(), ..Self::default() }
    }

    /// Adds a frame of the body. Returns false at its end.
    fn add<E>(&mut self, frame: Option<Result<Frame<Bytes>, E>>) -> bool {
        match frame.map(|frame| frame.map(Frame::into_data)) {
            None => return false,
            Some(Err(_)) => {
                self.end = End::BrokenBody;
                return false;
            }
            Some(Ok(Ok(data))) => self.body.extend_from_slice(&data),
            Some(Ok(Err(frame))) => self.trailers = frame.into_trailers().ok(),
        }
        true
    }
}

fn request(method: &Method) -> Request<Body> {
    Request::builder().method(method).uri("/x").header("host", "a").body(Body::default()).unwrap()
}

/// Reads the response by the gateway's own codec.
async fn by_own(pieces: &[&[u8]], method: &Method) -> (Seen, bool) {
    let mut connection = Http1Connection::new(Scripted::new(pieces), LIMITS);
    connection.start(request(method), None);
    let mut seen = match poll_fn(|cx| connection.poll_head(cx)).await {
        Ok(response) => Seen::head(&response),
        Err(error) => {
            let end = if error.is_invalid_response() { End::InvalidHead } else { End::NoResponse };
            return (Seen { end, ..Seen::default() }, false);
        }
    };
    while seen.add(poll_fn(|cx| connection.poll_frame(cx)).await) {}
    assert!(!connection.finish());
    let is_reusable = connection.is_reusable();
    (seen, is_reusable)
}

/// Reads the response by hyper's client.
async fn by_hyper(pieces: &[&[u8]], method: &Method) -> Seen {
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_header_size(LIMITS.max_bytes)
        .max_headers(LIMITS.max_fields)
        .handshake(TokioIo::new(Scripted::new(pieces)))
        .await
        .unwrap();
    let task = spawn_local(async move {
        let _ = connection.await;
    });
    let seen = match sender.send_request(request(method)).await {
        Ok(mut response) => {
            let mut seen = Seen::head(&response);
            while seen.add(poll_fn(|cx| Pin::new(response.body_mut()).poll_frame(cx)).await) {}
            seen
        }
        Err(error) => {
            let end = if error.is_parse() { End::InvalidHead } else { End::NoResponse };
            Seen { end, ..Seen::default() }
        }
    };
    task.abort();
    seen
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, future)
}

const OK: &str = "HTTP/1.1 200 OK\r\n";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Responses that hyper reads as this codec does. The second value is true if the connection can be used again.
fn responses() -> Vec<(String, bool)> {
    let ok = |rest: &str| format!("{OK}{rest}");
    let chunks = |rest: &str| format!("{CHUNKED}{rest}");
    vec![
        (ok("Content-Length: 5\r\nX-A: b\r\nX-Empty:\r\nx-a: c\r\n\r\nhello"), true),
        (ok("Content-Length: 0\r\n\r\n"), true),
        (ok("Content-Length: 5, 5\r\nContent-Length: 5\r\n\r\nhello"), true),
        (ok("Content-Length: 5\r\nConnection: x, Close\r\n\r\nhello"), false),
        (ok("Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), false),
        (ok("Content-Length: +5\r\n\r\nhello"), false),
        (ok("Content-Length: 99999999999999999999\r\n\r\nhello"), false),
        (ok("Content-Length:\r\n\r\nhello"), false),
        (ok("\r\nuntil the end"), false),
        (ok("Content-Length: 9\r\n\r\nhello"), false),
        (chunks("5\r\nhello\r\n6; a=b\r\n world\r\n0\r\n\r\n"), true),
        (chunks("a \t\r\n0123456789\r\n00\r\n\r\n"), true),
        (chunks("5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Empty:\r\n\r\n"), true),
        (chunks("5\r\nhello\r\n0\r\nX-Sum 1\r\n\r\n"), false),
        (chunks("5\r\nhello\r\n0\r\nX: 1\r\n folded\r\n\r\n"), false),
        (chunks("5\nhello\r\n0\r\n\r\n"), false),
        (chunks("5\r\nhello\n0\r\n\r\n"), false),
        (chunks("5\r\nhello\r\n0\r\n\n"), false),
        (chunks("5\r\nhello0\r\n\r\n"), false),
        (chunks("\r\nhello"), false),
        (chunks("-5\r\nhello"), false),
        (chunks("5 5\r\nhello\r\n0\r\n\r\n"), false),
        (chunks("10000000000000000\r\nhello"), false),
        (chunks("ffffffffffffffff\r\nhello"), false),
        (chunks("5;a\n\r\nhello\r\n0\r\n\r\n"), false),
        (ok("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), false),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(), false),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_owned(), false),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello".to_owned(), true),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n".to_owned(), true),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n".to_owned(), true),
        (
            format!("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 \n\n{OK}Content-Length: 2\r\n\r\nok"),
            true,
        ),
        (format!("\r\n\n{OK}Content-Length: 2\r\n\r\nok"), true),
        ("HTTP/1.1 200 OK\nContent-Length: 2\n\nok".to_owned(), true),
        ("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok".to_owned(), true),
        ("HTTP/1.1 200 Some Reason\r\nContent-Length: 2\r\n\r\nok".to_owned(), true),
        (ok("X-A: b\r\n folded\r\n\r\n"), false),
        (ok("X-A : b\r\n\r\n"), false),
        (ok("X-A: b\rX-B: c\r\n\r\n"), false),
        (ok("X-A: b\0\r\n\r\n"), false),
        (ok("no field\r\n\r\n"), false),
        (ok(&format!("{}\r\n", "X: y\r\n".repeat(21))), false),
        (ok(&format!("X: {}\r\n\r\n", "y".repeat(8192))), false),
        ("HTTP/2.0 200 OK\r\n\r\n".to_owned(), false),
        ("HTTP/1.1 2000 OK\r\n\r\n".to_owned(), false),
        ("HTTP/1.1 099 x\r\n\r\n".to_owned(), false),
        ("ICY 200 OK\r\n\r\n".to_owned(), false),
        (String::new(), false),
    ]
}

#[test]
fn responses_cut_anywhere_are_read_as_hyper_reads_them() {
    block_on(async {
        for (sent, can_be_reused) in responses() {
            for (method, step) in [(Method::GET, 1), (Method::HEAD, 9)] {
                let cuts = if sent.len() < 1000 { 0..sent.len().max(1) } else { 0..2 };
                for cut in cuts.step_by(step) {
                    let (one, two) = sent.as_bytes().split_at(cut);
                    let pieces = [one, two];
                    let (own, is_reusable) = by_own(&pieces, &method).await;
                    let theirs = by_hyper(&pieces, &method).await;
                    assert_eq!(own, theirs, "{method} {cut} of {sent:?}");
                    if method == Method::GET {
                        assert_eq!(is_reusable, can_be_reused, "{cut} of {sent:?}");
                    }
                }
            }
        }
    });
}

#[test]
fn bytes_behind_a_response_end_the_use_of_its_connection() {
    block_on(async {
        for response in [format!("{OK}Content-Length: 2\r\n\r\nok"), format!("{CHUNKED}2\r\nok\r\n0\r\n\r\n")] {
            for late in ["HTTP/1.1 200 OK\r\n\r\n", "\r\n"] {
                let sent = [&response, late].concat();
                for cut in 0..response.len() {
                    let (one, two) = sent.as_bytes().split_at(cut);
                    let (seen, is_reusable) = by_own(&[one, two], &Method::GET).await;
                    assert_eq!((seen.body.as_slice(), is_reusable), (&b"ok"[..], false), "{cut} of {sent:?}");
                }
            }
        }
    });
}

#[test]
fn framing_in_doubt_fails_although_hyper_accepts_it() {
    block_on(async {
        for chunks in ["00000000000000005\r\nhello\r\n0\r\n\r\n", "5;\x07\r\nhello\r\n0\r\n\r\n"] {
            let pieces = [CHUNKED.as_bytes(), chunks.as_bytes()];
            assert_eq!(by_own(&pieces, &Method::GET).await.0.end, End::BrokenBody, "{chunks:?}");
            assert_eq!(by_hyper(&pieces, &Method::GET).await.end, End::Whole, "{chunks:?}");
        }
    });
}
