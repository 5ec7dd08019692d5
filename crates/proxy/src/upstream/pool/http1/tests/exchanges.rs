//! Writes of requests, bodies in pieces of any size, and exchanges that fail.

use proptest::prelude::*;

use super::*;

#[test]
fn a_request_whose_first_write_fails_is_unsent_and_returned() {
    block_on(async {
        let mut connection = Http1Connection::new(Scripted { fails_writes: true, ..Scripted::default() }, LIMITS);
        connection.start(request(&Method::POST), None);
        let error = poll_fn(|cx| connection.poll_head(cx)).await.unwrap_err();
        assert!(matches!(error, Http1Error::Unsent), "{error:?}");
        let request = connection.take_request().unwrap();
        assert_eq!((request.method(), request.headers().len()), (&Method::POST, 1));
    });
}

#[test]
fn a_response_is_read_although_writes_of_the_body_fail() {
    block_on(async {
        let response = format!("{OK}Content-Length: 2\r\n\r\nok");
        let io = Scripted { fails_writes: true, ..Scripted::new(&[response.as_bytes()]) };
        let mut connection = Http1Connection::new(io, LIMITS);
        connection.start(request(&Method::POST).map(|_| Body::from(Bytes::from_static(b"body"))), None);
        assert_eq!(poll_fn(|cx| connection.poll_head(cx)).await.unwrap().status(), StatusCode::OK);
        assert_eq!(connection.received_frame().unwrap().unwrap().into_data().unwrap(), "ok");
        assert!(!connection.finish() && !connection.is_reusable());
    });
}

#[test]
fn a_request_that_gets_no_response_after_an_interim_one_can_be_repeated_with_its_fields() {
    block_on(async {
        let interim = b"HTTP/1.1 103 x\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nX: y";
        let mut connection = Http1Connection::new(Scripted::new(&[interim]), LIMITS);
        connection.start(request(&Method::GET), None);
        let error = poll_fn(|cx| connection.poll_head(cx)).await.unwrap_err();
        assert!(matches!(error, Http1Error::Incomplete), "{error:?}");
        assert_eq!(connection.take_request().unwrap().headers()["host"], "a");
    });
}

#[test]
fn interim_heads_are_recognized_in_pieces_of_any_size() {
    let hint = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    let sent =
        format!("\r\n{hint}HTTP/1.1 100 Continue\n\nHTTP/1.1 150 \r\n\r\n{hint}{OK}Content-Length: 40\r\n\r\n{hint}");
    for size in [1, 2, 3, 7, 9, 10, 11, 40, 1000] {
        let mut reader = ResponseReader::new(LIMITS);
        let (mut statuses, mut last) = (Vec::new(), None);
        for piece in sent.as_bytes().chunks(size) {
            reader.receive(piece);
            let note = |status: StatusCode, fields: HeaderMap| statuses.push((status.as_u16(), fields.len()));
            last = last.or(reader.head(false, &mut HeaderMap::new(), note).unwrap());
            if last.is_some() {
                break;
            }
        }
        assert_eq!(last.unwrap().status(), StatusCode::OK, "{size}");
        assert_eq!(statuses, [(103, 1), (100, 0), (150, 0), (103, 1)], "{size}");
    }
}

/// Returns a chunk: its data, and what stands behind its size.
fn chunk() -> impl Strategy<Value = (Vec<u8>, &'static str)> {
    let extension = prop_oneof![Just(""), Just(" "), Just(";a=b"), Just("\t; a=\"b c\"")];
    (proptest::collection::vec(any::<u8>(), 1..3000), extension)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunked_bodies_are_decoded_in_pieces_of_any_size(
        chunks in proptest::collection::vec(chunk(), 0..6),
        has_trailer in any::<bool>(),
        piece in 1_usize..4000,
    ) {
        let mut sent = CHUNKED.as_bytes().to_vec();
        for (data, extension) in &chunks {
            sent.extend(format!("{:x}{extension}\r\n", data.len()).into_bytes());
            sent.extend(data);
            sent.extend(b"\r\n");
        }
        sent.extend(if has_trailer { &b"0\r\nX-Sum: 1\r\n\r\n"[..] } else { b"0\r\n\r\n" });
        let mut reader = ResponseReader::new(LIMITS);
        let mut seen = Seen::default();
        let mut has_head = false;
        for piece in sent.chunks(piece) {
            reader.receive(piece);
            has_head = has_head || reader.head(false, &mut HeaderMap::new(), |_, _| {}).unwrap().is_some();
            while has_head && seen.add(reader.frame().transpose()) {}
        }
        let body: Vec<u8> = chunks.into_iter().flat_map(|(data, _)| data).collect();
        prop_assert!(reader.is_reusable());
        prop_assert_eq!(seen.body, body);
        prop_assert_eq!(seen.trailers.is_some(), has_trailer);
    }

    #[test]
    fn a_request_body_is_written_whole_by_a_socket_that_takes_little(
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..5),
        room in 1_usize..64,
    ) {
        let length: usize = parts.iter().map(Vec::len).sum();
        let written = block_on(write(parts.clone(), room));
        let (head, body) = written.split_at(written.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4);
        prop_assert!(head.starts_with(b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n"));
        let mut reader = ResponseReader::new(LIMITS);
        reader.receive(CHUNKED.as_bytes());
        reader.head(false, &mut HeaderMap::new(), |_, _| {}).unwrap();
        reader.receive(body);
        let mut seen = Seen::default();
        while seen.add(reader.frame().transpose()) {}
        prop_assert_eq!(seen.body.len(), length);
        prop_assert_eq!(seen.body, parts.concat());
        prop_assert!(reader.is_reusable());
    }
}

/// Body of unknown length, of these parts, of which each second one is not there at first.
#[derive(Debug)]
struct Parts(VecDeque<Vec<u8>>, bool);

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.1 = !self.1;
        if self.1 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.0.pop_front().map(|part| Ok(Frame::data(part.into()))))
    }
}

/// Writes a request with a body of `parts` to a socket with `room` for that many bytes. Returns what arrives.
async fn write(parts: Vec<Vec<u8>>, room: usize) -> Vec<u8> {
    let (ours, mut theirs) = tokio::io::duplex(room);
    let mut connection = Http1Connection::new(ours, LIMITS);
    connection.start(request(&Method::POST).map(|_| Body::boxed(Parts(parts.into(), false))), None);
    let mut written = Vec::new();
    let writing = poll_fn(|cx| connection.upload.poll(&connection.io, cx));
    let reading = async {
        while !written.ends_with(b"0\r\n\r\n") {
            let _ = theirs.read_buf(&mut written).await;
        }
    };
    let (result, ()) = tokio::join!(writing, reading);
    result.unwrap();
    written
}
