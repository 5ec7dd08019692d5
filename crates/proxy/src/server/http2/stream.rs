//! One request on a stream of an HTTP/2 connection.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{
    CONNECTION, CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{Response, StatusCode};
use http_body::Body as HttpBody;

use crate::http::handler::{BusyGuard, ResponseBody};
use crate::http::interim::{InterimResponses, InterimSender};
use crate::server::activity::Activity;
use crate::server::clients::ClientStreamGuard;
use crate::server::http2::outstanding::{Outstanding, ResponsePart, WatchedResponse};
use crate::server::refusal::date;

/// Fields that HTTP/2 forbids (RFC 9113 §8.2.2).
static FORBIDDEN: [HeaderName; 6] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    TE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Request whose response is to be sent.
pub(super) struct Exchange {
    pub(super) respond: SendResponse<ResponsePart>,
    pub(super) watched: WatchedResponse,
    /// Interim responses on their way to the client.
    pub(super) interim: InterimResponses,
    pub(super) sender: Option<InterimSender>,
    pub(super) is_head: bool,
    /// Keeps the connection busy until the response has been written.
    pub(super) busy: BusyGuard<Activity>,
    /// Counts the stream among those of its client.
    pub(super) _place: Option<ClientStreamGuard>,
}

/// The stream ended early: the client reset it, or the connection is closed.
struct StreamEnded;

impl From<h2::Error> for StreamEnded {
    fn from(_: h2::Error) -> Self {
        Self
    }
}

impl Exchange {
    /// Sends the response to its end. Drops it when the client resets the stream.
    pub(super) async fn run<B>(self, response: impl Future<Output = Response<B>>)
    where
        B: ResponseBody,
    {
        let _ = self.send(response).await;
    }

    async fn send<B>(mut self, response: impl Future<Output = Response<B>>) -> Result<(), StreamEnded>
    where
        B: ResponseBody,
    {
        let (mut head, mut body) = self.response(response).await?.into_parts();
        self.interim.close(false);
        prepare_head(&mut head.headers, &body);
        let is_empty = self.is_head || body.is_end_stream();
        let mut stream = self.respond.send_response(Response::from_parts(head, ()), is_empty)?;
        if is_empty {
            return Ok(());
        }
        let sent = poll_fn(|cx| poll_body(cx, &mut body, &mut stream, &self.watched)).await;
        if sent.is_err() && (self.watched.is_stalled() || self.busy.connection().is_write_stalled()) {
            body.client_stalled();
        }
        // The upstream's connection and the record of the request end here, not when the client has read everything.
        drop(body);
        sent?;
        poll_fn(|cx| poll_written(cx, &mut stream, &self.watched)).await
    }

    /// Waits for the response head, and sends interim responses before it.
    async fn response<B>(&mut self, response: impl Future<Output = Response<B>>) -> Result<Response<B>, StreamEnded> {
        let mut response = pin!(response);
        poll_fn(|cx| {
            self.interim.watch(cx);
            let scope = InterimSender::enter(&mut self.sender);
            let response = response.as_mut().poll(cx);
            drop(scope);
            for mut interim in self.interim.take() {
                FORBIDDEN.iter().for_each(|name| drop(interim.headers_mut().remove(name)));
                self.respond.send_informational(interim)?;
            }
            if let Poll::Ready(response) = response {
                return Poll::Ready(Ok(response));
            }
            ready!(self.respond.poll_reset(cx))?;
            Poll::Ready(Err(StreamEnded))
        })
        .await
    }
}

/// Passes the body to the connection: the next part when the client has taken the one before.
fn poll_body<B: ResponseBody>(
    cx: &mut Context<'_>,
    body: &mut B,
    stream: &mut SendStream<ResponsePart>,
    outstanding: &Rc<Outstanding>,
) -> Poll<Result<(), StreamEnded>> {
    loop {
        poll_open(cx, stream, outstanding)?;
        if outstanding.bytes() > 0 {
            outstanding.watch(cx);
            return Poll::Pending;
        }
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    let is_last = body.is_end_stream();
                    if !data.is_empty() || is_last {
                        stream.send_data(ResponsePart::new(data, outstanding), is_last)?;
                    }
                    if is_last {
                        return Poll::Ready(Ok(()));
                    }
                }
                Err(frame) => {
                    if let Ok(trailers) = frame.into_trailers() {
                        stream.send_trailers(trailers)?;
                        return Poll::Ready(Ok(()));
                    }
                }
            },
            Some(Err(_)) => {
                stream.send_reset(Reason::INTERNAL_ERROR);
                return Poll::Ready(Err(StreamEnded));
            }
            None => {
                stream.send_data(ResponsePart::end(), true)?;
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Waits until the client has read the response.
fn poll_written(
    cx: &mut Context<'_>,
    stream: &mut SendStream<ResponsePart>,
    outstanding: &Outstanding,
) -> Poll<Result<(), StreamEnded>> {
    if outstanding.bytes() == 0 {
        return Poll::Ready(Ok(()));
    }
    poll_open(cx, stream, outstanding)?;
    outstanding.watch(cx);
    Poll::Pending
}

/// Fails if the client has reset the stream. Resets it if the client does not read.
fn poll_open(
    cx: &mut Context<'_>,
    stream: &mut SendStream<ResponsePart>,
    outstanding: &Outstanding,
) -> Result<(), StreamEnded> {
    if outstanding.is_stalled() {
        tracing::debug!("stream reset: response not read in time");
        stream.send_reset(Reason::CANCEL);
        return Err(StreamEnded);
    }
    match stream.poll_reset(cx) {
        Poll::Ready(_) => Err(StreamEnded),
        Poll::Pending => Ok(()),
    }
}

fn prepare_head(headers: &mut HeaderMap, body: &impl HttpBody) {
    let (mut has_date, mut has_length, mut has_forbidden) = (false, false, false);
    // Comparing the names of a head costs less than a look-up of each.
    for name in headers.keys() {
        has_date |= *name == DATE;
        has_length |= *name == CONTENT_LENGTH;
        has_forbidden |= FORBIDDEN.contains(name);
    }
    if has_forbidden {
        FORBIDDEN.iter().for_each(|name| drop(headers.remove(name)));
    }
    if !has_date && let Some(date) = date() {
        headers.insert(DATE, date);
    }
    if !has_length
        && !body.is_end_stream()
        && let Some(length) = body.size_hint().exact()
    {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// Returns the response to a request head above the limits.
pub(super) fn head_too_large() -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    if let Some(date) = date() {
        response.headers_mut().insert(DATE, date);
    }
    response
}
