//! Sections 3 to 5: preface, frames, streams.

use super::*;

/// Sections 3 to 5: preface, frames, streams.
pub(super) fn framing() -> Vec<Case> {
    let ask = (HEADERS, ES | EH, 1, get());
    let open = (HEADERS, EH, 1, post(&[]));
    vec![
        case("3.4", "a request", vec![ask.clone()], Status(200)),
        case("4.1", "an unknown frame type is ignored", vec![(0x16, 0, 0, vec![0; 8]), ask.clone()], Status(200)),
        case("4.1", "undefined flags are ignored", vec![(PING, 0x16, 0, vec![0; 8]), ask.clone()], Status(200)),
        case("4.1", "the reserved bit is ignored", vec![(PING, 0, 0x8000_0000, vec![0; 8]), ask.clone()], Status(200)),
        case(
            "4.2",
            "a frame above the limit",
            vec![open.clone(), (DATA, ES, 1, vec![0; 16_385])],
            Connection(&[FRAME_SIZE_ERROR]),
        ),
        case(
            "4.3",
            "an invalid header block",
            vec![(HEADERS, ES | EH, 1, vec![0x40])],
            Connection(&[COMPRESSION_ERROR, PROTOCOL_ERROR]),
        ),
        case(
            "4.3",
            "an index outside of the table",
            vec![(HEADERS, ES | EH, 1, vec![0xff, 0xff, 0x7f])],
            Connection(&[COMPRESSION_ERROR, PROTOCOL_ERROR]),
        ),
        case(
            "4.3",
            "another frame inside a header block",
            vec![(HEADERS, ES, 1, get()), (PING, 0, 0, vec![0; 8])],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case(
            "4.3",
            "another stream inside a header block",
            vec![(HEADERS, ES, 1, get()), (CONTINUATION, EH, 3, vec![])],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case("5.1", "DATA on an idle stream", vec![(DATA, ES, 1, vec![0])], Connection(&[PROTOCOL_ERROR])),
        case("5.1", "RST_STREAM on an idle stream", vec![(RST_STREAM, 0, 1, word(8))], Connection(&[PROTOCOL_ERROR])),
        case(
            "5.1",
            "WINDOW_UPDATE on an idle stream",
            vec![(WINDOW_UPDATE, 0, 1, word(1))],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case("5.1", "CONTINUATION without HEADERS", vec![(CONTINUATION, EH, 1, get())], Connection(&[PROTOCOL_ERROR])),
        case(
            "5.1",
            "DATA after the end of the stream",
            vec![ask.clone(), (DATA, ES, 1, vec![0])],
            Stream(&[STREAM_CLOSED, PROTOCOL_ERROR]),
        ),
        case(
            "5.1",
            "HEADERS after the end of the stream",
            vec![ask.clone(), (HEADERS, ES | EH, 1, get())],
            Stream(&[STREAM_CLOSED, PROTOCOL_ERROR]),
        ),
        case(
            "5.1",
            "DATA after RST_STREAM",
            vec![open.clone(), (RST_STREAM, 0, 1, word(8)), (DATA, ES, 1, vec![0])],
            Stream(&[STREAM_CLOSED]),
        ),
        case("5.1.1", "an even stream", vec![(HEADERS, ES | EH, 2, get())], Connection(&[PROTOCOL_ERROR])),
        case(
            "5.1.1",
            "a lower stream",
            vec![(HEADERS, ES | EH, 5, get()), (HEADERS, ES | EH, 3, get())],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case("5.4.1", "GOAWAY of the client", vec![ask, (GOAWAY, 0, 0, [word(0), word(0)].concat())], Status(200)),
        case(
            "5.1.2",
            "more streams than announced",
            (0..200).map(|n| (HEADERS, EH, 2 * n + 1, post(&[]))).collect(),
            Stream(&[REFUSED_STREAM, PROTOCOL_ERROR]),
        ),
    ]
}
