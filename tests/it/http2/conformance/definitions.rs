//! Section 6: frame definitions.

use super::*;

/// Section 6: frame definitions.
pub(super) fn definitions() -> Vec<Case> {
    let ask = (HEADERS, ES | EH, 1, get());
    let open = (HEADERS, EH, 1, post(&[]));
    vec![
        case("6.1", "DATA on stream 0", vec![(DATA, ES, 0, vec![0])], Connection(&[PROTOCOL_ERROR])),
        case(
            "6.1",
            "padding as long as the payload",
            vec![open.clone(), (DATA, ES | PADDED, 1, vec![6, 0, 0, 0, 0])],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case("6.1", "padded DATA", vec![open.clone(), (DATA, ES | PADDED, 1, vec![2, b'a', 0, 0])], Status(200)),
        case("6.2", "HEADERS on stream 0", vec![(HEADERS, ES | EH, 0, get())], Connection(&[PROTOCOL_ERROR])),
        case(
            "6.2",
            "padding of HEADERS above the payload",
            vec![(HEADERS, ES | EH | PADDED, 1, vec![200, 0])],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case(
            "6.2",
            "HEADERS with a priority",
            vec![(HEADERS, ES | EH | PRIO, 1, [vec![0, 0, 0, 0, 16], get()].concat())],
            Status(200),
        ),
        case(
            "6.2",
            "HEADERS that depend on themselves",
            vec![(HEADERS, ES | EH | PRIO, 1, [vec![0, 0, 0, 1, 16], get()].concat())],
            Stream(&[PROTOCOL_ERROR]),
        ),
        case("6.3", "PRIORITY on stream 0", vec![(PRIORITY, 0, 0, vec![0, 0, 0, 0, 1])], Connection(&[PROTOCOL_ERROR])),
        case(
            "6.3",
            "PRIORITY of a wrong size",
            vec![(PRIORITY, 0, 1, vec![0; 4])],
            Stream(&[FRAME_SIZE_ERROR, PROTOCOL_ERROR]),
        ),
        case(
            "6.3",
            "PRIORITY on an idle stream",
            vec![(PRIORITY, 0, 3, vec![0, 0, 0, 0, 1]), ask.clone()],
            Status(200),
        ),
        case("6.4", "RST_STREAM on stream 0", vec![(RST_STREAM, 0, 0, word(8))], Connection(&[PROTOCOL_ERROR])),
        case(
            "6.4",
            "RST_STREAM of a wrong size",
            vec![open.clone(), (RST_STREAM, 0, 1, vec![0; 3])],
            Connection(&[FRAME_SIZE_ERROR, PROTOCOL_ERROR]),
        ),
        case("6.5", "SETTINGS on a stream", vec![(SETTINGS, 0, 1, vec![])], Connection(&[PROTOCOL_ERROR])),
        case(
            "6.5",
            "an acknowledgement with a payload",
            vec![(SETTINGS, 1, 0, setting(3, 1))],
            Connection(&[FRAME_SIZE_ERROR, PROTOCOL_ERROR]),
        ),
        case(
            "6.5",
            "SETTINGS of a wrong size",
            vec![(SETTINGS, 0, 0, vec![0; 5])],
            Connection(&[FRAME_SIZE_ERROR, PROTOCOL_ERROR]),
        ),
        case("6.5.2", "ENABLE_PUSH above 1", vec![(SETTINGS, 0, 0, setting(2, 2))], Connection(&[PROTOCOL_ERROR])),
        case(
            "6.5.2",
            "an initial window above 2^31-1",
            vec![(SETTINGS, 0, 0, setting(4, 0x8000_0000))],
            Connection(&[FLOW_CONTROL_ERROR, PROTOCOL_ERROR]),
        ),
        case(
            "6.5.2",
            "a frame size below 2^14",
            vec![(SETTINGS, 0, 0, setting(5, 16_383))],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case(
            "6.5.2",
            "a frame size above 2^24-1",
            vec![(SETTINGS, 0, 0, setting(5, 0x0100_0000))],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case(
            "6.5.2",
            "an unknown setting is ignored",
            vec![(SETTINGS, 0, 0, setting(0xff, 1)), ask.clone()],
            Status(200),
        ),
        case(
            "6.6",
            "PUSH_PROMISE of a client",
            vec![(PUSH_PROMISE, EH, 1, [word(2), get()].concat())],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case("6.7", "PING on a stream", vec![(PING, 0, 1, vec![0; 8])], Connection(&[PROTOCOL_ERROR])),
        case(
            "6.7",
            "PING of a wrong size",
            vec![(PING, 0, 0, vec![0; 6])],
            Connection(&[FRAME_SIZE_ERROR, PROTOCOL_ERROR]),
        ),
        case("6.7", "an unexpected acknowledgement is ignored", vec![(PING, 1, 0, vec![9; 8])], Alive),
        case(
            "6.8",
            "GOAWAY on a stream",
            vec![(GOAWAY, 0, 1, [word(0), word(0)].concat())],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case(
            "6.8",
            "GOAWAY of a wrong size",
            vec![(GOAWAY, 0, 0, vec![0; 7])],
            Connection(&[FRAME_SIZE_ERROR, PROTOCOL_ERROR]),
        ),
        case(
            "6.9",
            "WINDOW_UPDATE of 0 for the connection",
            vec![(WINDOW_UPDATE, 0, 0, word(0))],
            Connection(&[PROTOCOL_ERROR]),
        ),
        case(
            "6.9",
            "WINDOW_UPDATE of 0 for a stream",
            vec![open.clone(), (WINDOW_UPDATE, 0, 1, word(0))],
            Stream(&[PROTOCOL_ERROR]),
        ),
        case(
            "6.9",
            "WINDOW_UPDATE of a wrong size",
            vec![(WINDOW_UPDATE, 0, 0, vec![0; 3])],
            Connection(&[FRAME_SIZE_ERROR, PROTOCOL_ERROR]),
        ),
        case(
            "6.9.1",
            "a window of the connection above 2^31-1",
            vec![(WINDOW_UPDATE, 0, 0, word(0x7fff_ffff))],
            Connection(&[FLOW_CONTROL_ERROR]),
        ),
        case(
            "6.9.1",
            "a window of a stream above 2^31-1",
            vec![open, (WINDOW_UPDATE, 0, 1, word(0x7fff_ffff))],
            Stream(&[FLOW_CONTROL_ERROR]),
        ),
        case(
            "6.10",
            "CONTINUATION of a request",
            vec![(HEADERS, ES, 1, get()[..9].to_vec()), (CONTINUATION, EH, 1, get()[9..].to_vec())],
            Status(200),
        ),
    ]
}
