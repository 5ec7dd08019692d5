//! Reader of responses of HTTP/1.1 upstreams: any bytes have one reading, however they arrive, or an error.
//!
//! Input: a byte with the size of the pieces and whether the request was `HEAD`, then what an upstream sends.

use http::{HeaderMap, Response};
use tollgate_proxy::upstream::pool::http1::{HeadLimits, ResponseReader};

const LIMITS: HeadLimits = HeadLimits { max_bytes: 512, max_fields: 80 };

/// Reading of what an upstream has sent, until it closed the connection.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reading {
    interim: Vec<u16>,
    head: Option<(u16, HeaderMap)>,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
    is_whole: bool,
    is_reusable: bool,
}

pub fn run(bytes: &[u8]) {
    let Some((options, sent)) = bytes.split_first() else { return };
    let is_head = options & 0x80 != 0;
    let whole = read(sent, sent.len().max(1), is_head);
    assert_eq!(whole, read(sent, 1, is_head), "byte by byte");
    assert_eq!(whole, read(sent, usize::from(options & 0x7f) + 1, is_head), "in pieces");
    let Some((status, headers)) = &whole.head else { return };
    assert!(*status == 101 || *status >= 200, "{status} is no final response");
    assert!(!is_head || whole.body.is_empty());
    let length = headers.get("content-length").and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let is_framed = !is_head && ![101, 204, 304].contains(status) && !headers.contains_key("transfer-encoding");
    if let Some(length) = length.filter(|_| is_framed && whole.is_whole) {
        assert_eq!(whole.body.len(), length);
    }
}

fn read(sent: &[u8], size: usize, is_head: bool) -> Reading {
    let mut reader = ResponseReader::new(LIMITS);
    let mut reading = Reading::default();
    for piece in sent.chunks(size) {
        reader.receive(piece);
        if reading.head.is_none() {
            let mut interim = Vec::new();
            let head = reader.head(is_head, &mut HeaderMap::new(), |status, _| interim.push(status.as_u16()));
            reading.interim.extend(interim);
            match head {
                Ok(Some(head)) => reading.head = Some(parts(head)),
                Ok(None) => continue,
                Err(_) => return reading,
            }
        }
        loop {
            match reader.frame() {
                Ok(None) => break,
                Err(_) => return reading,
                Ok(Some(frame)) => match frame.into_data() {
                    Ok(data) => reading.body.extend_from_slice(&data),
                    Err(frame) => reading.trailers = frame.into_trailers().ok(),
                },
            }
        }
    }
    if reading.head.is_some() {
        reading.is_reusable = reader.is_reusable();
        reading.is_whole = reader.has_ended() || reader.close().is_ok();
        assert!(!reading.is_reusable || reading.is_whole);
    }
    reading
}

fn parts(head: Response<()>) -> (u16, HeaderMap) {
    (head.status().as_u16(), head.into_parts().0.headers)
}
