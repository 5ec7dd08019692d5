#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};

use super::body::Kind;
use super::*;

/// Data frames, then trailers.
struct Pieces(VecDeque<Frame<Bytes>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

fn pieces() -> Pieces {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", http::HeaderValue::from_static("5"));
    let data = ["he", "llo"].map(|piece| Frame::data(Bytes::from_static(piece.as_bytes())));
    Pieces(data.into_iter().chain([Frame::trailers(trailers)]).collect())
}

#[tokio::test]
async fn a_body_is_replayed_from_its_beginning_with_its_trailers() {
    let (mut first, recording) = record(pieces(), 5);
    let recording = recording.unwrap();
    assert_eq!(first.frame().await.unwrap().unwrap().into_data().unwrap(), "he");
    let second = recording.replay().unwrap();
    assert!(
        matches!(first.frame().await, Some(Err(ReplayError::Superseded))),
        "the second attempt supersedes the first"
    );
    for body in [second, recording.replay().unwrap()].into_iter().skip(1) {
        let all = body.collect().await.unwrap();
        assert_eq!(all.trailers().unwrap()["x-sum"], "5");
        assert_eq!(all.to_bytes(), "hello");
    }
    let third = recording.replay().unwrap();
    assert!(!third.is_end_stream());
    assert_eq!(third.size_hint().exact(), Some(5));
    assert_eq!(third.collect().await.unwrap().to_bytes(), "hello");
}

/// A body without frames and without an end.
struct Silent;

impl Body for Silent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

#[tokio::test]
async fn a_waiting_reader_is_woken_when_another_attempt_supersedes_it() {
    let (mut first, recording) = record(Silent, 5);
    let (read, second) = tokio::join!(first.frame(), async { recording.unwrap().replay().unwrap() });
    assert!(matches!(read, Some(Err(ReplayError::Superseded))));
    assert!(!second.is_end_stream());
}

#[tokio::test]
async fn a_body_above_the_limit_streams_and_is_not_replayed() {
    let (first, recording) = record(pieces(), 4);
    assert_eq!(first.collect().await.unwrap().to_bytes(), "hello");
    assert!(recording.unwrap().replay().is_none());
    let (known_length, recording) = record(Full::<Bytes>::from("hello"), 4);
    assert!(recording.is_none());
    assert_eq!(known_length.collect().await.unwrap().to_bytes(), "hello");
}

#[tokio::test]
async fn an_empty_body_needs_no_recording() {
    let (body, recording) = record(Full::<Bytes>::default(), 4);
    assert!(matches!(body.kind, Kind::Empty) && body.is_end_stream());
    assert!(recording.unwrap().replay().unwrap().is_end_stream());
}

#[tokio::test]
async fn the_remaining_length_is_exact() {
    let (mut first, recording) = record(Full::<Bytes>::from("hello"), 5);
    assert_eq!(first.size_hint().exact(), Some(5));
    first.frame().await.unwrap().unwrap();
    assert!(first.is_end_stream());
    assert_eq!(first.size_hint().exact(), Some(0));
    assert_eq!(recording.unwrap().replay().unwrap().size_hint().exact(), Some(5));
}
