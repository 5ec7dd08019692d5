//! Requests as they are written (RFC 9112 §3 and §6).

use std::io::Write as _;

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, TRAILER, TRANSFER_ENCODING};
use http::request;
use http_body::Body as _;

use crate::http::body::Body;
use crate::http::fields::has_token;

/// Framing of a request body.
#[derive(Debug)]
pub(super) enum BodyFraming {
    /// Bytes that are left of the announced length.
    Length(u64),
    /// Chunks, with the names of the trailers that the head announces.
    Chunked(Vec<HeaderName>),
}

/// Appends the head of a request with `body` to `out`. The framing follows from the body, whatever the fields say. Returns it,
/// and true if the upstream is asked to close the connection.
pub(super) fn write_head(out: &mut Vec<u8>, head: &request::Parts, body: &Body) -> (BodyFraming, bool) {
    let is_empty = body.is_end_stream();
    let length = if is_empty { Some(0) } else { body.size_hint().exact() };
    let (mut has_length, mut closes) = (false, false);
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    for part in [head.method.as_str(), " ", path, " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    for (name, value) in &head.headers {
        if *name == CONTENT_LENGTH {
            if let Some(length) = length.filter(|_| !has_length) {
                write_length(out, length);
            }
            has_length = true;
        } else if *name != TRANSFER_ENCODING {
            closes |= *name == CONNECTION && has_token(value, b"close");
            write_field(out, name, value.as_bytes());
        }
    }
    let framing = match length {
        Some(length) => {
            if !has_length && !is_empty {
                write_length(out, length);
            }
            BodyFraming::Length(length)
        }
        None => {
            write_field(out, &TRANSFER_ENCODING, b"chunked");
            BodyFraming::Chunked(announced_trailers(&head.headers))
        }
    };
    out.extend_from_slice(b"\r\n");
    (framing, closes)
}

/// Appends the line before a chunk of `length` bytes.
pub(super) fn write_chunk_size(out: &mut Vec<u8>, length: usize) {
    let _ = write!(out, "{length:x}\r\n");
}

/// Appends the last chunk and the trailers that were `announced`.
pub(super) fn write_last_chunk(out: &mut Vec<u8>, trailers: &HeaderMap, announced: &[HeaderName]) {
    out.extend_from_slice(b"0\r\n");
    for (name, value) in trailers {
        if announced.contains(name) {
            write_field(out, name, value.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn write_length(out: &mut Vec<u8>, length: u64) {
    write_field(out, &CONTENT_LENGTH, itoa::Buffer::new().format(length).as_bytes());
}

fn write_field(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    out.reserve(name.as_str().len() + value.len() + 4);
    for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn announced_trailers(headers: &HeaderMap) -> Vec<HeaderName> {
    let lists = headers.get_all(TRAILER).iter();
    let names = lists.flat_map(|list| list.as_bytes().split(|byte| *byte == b','));
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;
    use http::Request;

    use super::*;

    fn written(fields: &[(&'static str, &'static str)], body: Body) -> (String, bool) {
        let mut request = Request::post("http://a/x?y=1");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let mut out = Vec::new();
        let (_, closes) = write_head(&mut out, &head, &body);
        (String::from_utf8(out).unwrap(), closes)
    }

    #[test]
    fn the_framing_of_a_request_is_that_of_its_body() {
        let start = "POST /x?y=1 HTTP/1.1\r\n";
        let lies = [("content-length", "7"), ("host", "a"), ("content-length", "8"), ("transfer-encoding", "gzip")];
        let (head, closes) = written(&lies, Body::from(Bytes::from_static(b"abc")));
        assert_eq!((head, closes), (format!("{start}content-length: 3\r\nhost: a\r\n\r\n"), false));
        let (head, _) = written(&lies, Body::default());
        assert_eq!(head, format!("{start}content-length: 0\r\nhost: a\r\n\r\n"));
        let (head, closes) = written(&[("host", "a"), ("connection", "x, Close")], Body::default());
        assert_eq!((head, closes), (format!("{start}host: a\r\nconnection: x, Close\r\n\r\n"), true));
        let (head, _) = written(&[("host", "a")], Body::from(Bytes::from_static(b"abc")));
        assert_eq!(head, format!("{start}host: a\r\ncontent-length: 3\r\n\r\n"));
    }

    #[test]
    fn only_announced_trailers_are_written() {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        trailers.insert("x-other", "2".parse().unwrap());
        let mut out = Vec::new();
        write_last_chunk(&mut out, &trailers, &[HeaderName::from_static("x-sum")]);
        assert_eq!(out, b"0\r\nx-sum: 1\r\n\r\n");
    }
}
