//! Responses that hyper does not write: those to heads that it cannot read, with the reason, and the `Date` field.

use std::cell::Cell;
use std::io;
use std::time::SystemTime;

use http::{HeaderValue, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use tokio::io::AsyncWriteExt;

use crate::server::stream::ClientStream;

/// Refusal of a request whose head cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) detail: &'static str,
}

impl Refusal {
    /// Returns the refusal for an error of hyper's parser; `None` for another error.
    pub(super) fn of(error: &hyper::Error) -> Option<Self> {
        let text = error.to_string();
        error.is_parse().then(|| Self::of_parser(&text, error.is_parse_too_large()))
    }

    /// Returns the refusal for the text of an error. hyper tells the part of the head in this text only.
    fn of_parser(error: &str, is_too_large: bool) -> Self {
        const BAD_PARTS: [(&str, &str); 6] = [
            ("method", "the method is not a token"),
            ("version", "the protocol version is not HTTP/1.1 or HTTP/1.0"),
            ("URI", "the request target has characters that must be percent-encoded, or is malformed"),
            ("content-length", "Content-Length is not one number"),
            ("transfer-encoding", "Transfer-Encoding does not end in chunked, or is not allowed here"),
            ("header", "a field line is malformed"),
        ];
        let (status, detail) = match (is_too_large, error.contains("URI")) {
            (true, true) => (StatusCode::URI_TOO_LONG, "the request target is too long"),
            (true, false) => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request head is too large"),
            (false, _) => {
                let part = BAD_PARTS.iter().find(|(part, _)| error.contains(*part));
                (StatusCode::BAD_REQUEST, part.map_or("the request head is malformed", |(_, detail)| *detail))
            }
        };
        Self { status, detail }
    }

    /// Writes the response, and closes the sending side.
    pub(super) async fn send(&self, stream: &mut ClientStream) -> io::Result<()> {
        let Self { status, detail } = self;
        let body = format!("{}: {detail}\n", status.canonical_reason().unwrap_or("Error"));
        let date = date().and_then(|date| date.to_str().map(|date| format!("Date: {date}\r\n")).ok());
        let response = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n{}Connection: \
             close\r\n\r\n{body}",
            body.len(),
            date.unwrap_or_default(),
        );
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await
    }
}

thread_local! {
    /// Date of the latest response, and its second.
    static LATEST_DATE: Cell<Option<(i64, HeaderValue)>> = const { Cell::new(None) };
}

/// Returns the current date as a field value (RFC 9110 §5.6.7).
pub(super) fn date() -> Option<HeaderValue> {
    let second = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs().try_into().ok()?;
    let latest = LATEST_DATE.take().filter(|(at, _)| *at == second);
    let value = match latest {
        Some((_, value)) => value,
        None => {
            let now = Timestamp::from_second(second).ok()?;
            let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&now).ok()?;
            HeaderValue::try_from(text).ok()?
        }
    };
    LATEST_DATE.set(Some((second, value.clone())));
    Some(value)
}
