//! The innermost service of every chain: sends the request to the upstream and hands back its answer, or the answer
//! to what went wrong. Nothing is buffered either way.
//!
//! A future is copied into its box with everything it may ever hold, so what seldom happens (connecting, sending
//! again) is boxed apart from what happens for every request.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{Extensions, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::upgrade::OnUpgrade;
use tokio::time::Instant;
use tollgate_filters::context::RequestContext;

use super::error::{ForwardError, to_failure};
use super::headers::Hygiene;
use super::pool::{Connection, Lease, Pool};
use super::upgrade;
use crate::body::{Body, Upload};
use crate::deadline::Deadline;
use crate::gateway::context::Upgrade;
use crate::gateway::respond::Failure;

/// How long an upstream may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To accept a connection.
    pub connect: Duration,
    /// From the request, or the latest piece of its body, to the answer's head; `None` waits without end.
    pub response: Option<Duration>,
    /// Between two pieces of the answer's body.
    pub read: Duration,
}

/// Forwards to one upstream under one route's settings.
#[derive(Debug)]
pub struct Forward {
    /// The connections.
    pub pool: Rc<Pool>,
    /// The route's timeouts.
    pub timeouts: Timeouts,
    /// What happens to the fields.
    pub hygiene: Rc<Hygiene>,
}

/// What became of one attempt: an answer, or why there is none and, where not a byte of it was written, the request.
type Outcome = Result<Response<Incoming>, (ForwardError, Option<Request<Body>>)>;

impl Forward {
    /// Sends the request; never fails but with an answer that says so.
    ///
    /// What a connection did not even take, and what may be repeated (RFC 9110 §9.2.2) and was broken off before its
    /// answer, is sent once more on a new connection.
    pub async fn forward(self: Rc<Self>, request: Request<Body>) -> Result<Response<Body>, Infallible> {
        let (mut head, body) = request.into_parts();
        let extras = self.prepare(&mut head);
        if !body.is_end_stream() && body.size_hint().exact().is_none() {
            // hyper takes a GET without framing fields to have no body, and would drop it.
            head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        let mut connection = match self.pool.take_idle() {
            Some(kept) => kept,
            None => match Box::pin(self.pool.connect(self.timeouts.connect)).await {
                Ok(fresh) => fresh,
                Err(error) => return Ok(self.failed(&error.into())),
            },
        };
        let replay = replayable(&head, &body).then(|| Replay::of(&head));
        let upload = body.upload();
        let sending = connection.sender.try_send_request(Request::from_parts(head, body));
        let mut outcome = self.answered(sending, &mut connection.deadline, upload.as_deref()).await;
        if let Err((error, unsent)) = outcome {
            let again = match (unsent, replay) {
                (Some(unsent), _) => unsent,
                // What came was an answer, if no valid one: to ask again would bring the same.
                (None, Some(replay)) if matches!(&error, ForwardError::Exchange(error) if !error.is_parse()) => {
                    replay.request()
                }
                _ => return Ok(self.failed(&error)),
            };
            (outcome, connection) = match Box::pin(self.send_anew(again, upload)).await {
                Ok(sent) => sent,
                Err(error) => return Ok(self.failed(&error)),
            };
        }
        Ok(match outcome {
            Ok(response) => self.relay(response, Lease::new(Rc::clone(&self.pool), connection), extras),
            Err((error, _)) => self.failed(&error),
        })
    }

    /// Makes the upstream's request head of the one that came through the filters.
    fn prepare(&self, head: &mut Parts) -> Option<Box<Extras>> {
        let extras = Extras::take(&mut head.extensions);
        let preserve_host = extras.as_ref().is_some_and(|extras| extras.preserve_host);
        if !preserve_host || !head.headers.contains_key(HOST) {
            head.headers.insert(HOST, self.pool.origin().authority.clone());
        }
        if let Some(upgrade) = extras.as_ref().and_then(|extras| extras.upgrade.as_ref()) {
            head.headers.insert(UPGRADE, upgrade.protocol.clone());
            head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        } else if head.headers.contains_key(TE) {
            head.headers.insert(CONNECTION, HeaderValue::from_static("te"));
        }
        head.version = Version::HTTP_11;
        extras
    }

    /// Waits for the answer's head, until the response timeout. An upstream cannot answer what it has not got yet: a
    /// body that still flows moves the deadline on.
    async fn answered(
        &self,
        sending: impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>>,
        deadline: &mut Deadline,
        upload: Option<&Upload>,
    ) -> Outcome {
        match self.timeouts.response {
            Some(patience) => deadline.set(Instant::now() + patience),
            None => deadline.clear(),
        }
        let mut sending = pin!(sending);
        let answer = poll_fn(|cx| {
            if let Poll::Ready(answer) = sending.as_mut().poll(cx) {
                return Poll::Ready(Some(answer));
            }
            while deadline.poll_expired(cx).is_ready() {
                let latest = upload.and_then(Upload::last_progress).zip(self.timeouts.response);
                match latest.map(|(latest, patience)| latest + patience).filter(|at| *at > Instant::now()) {
                    Some(at) => deadline.set(at),
                    None => return Poll::Ready(None),
                }
            }
            Poll::Pending
        })
        .await;
        deadline.clear();
        match answer {
            Some(Ok(response)) => Ok(response),
            Some(Err(mut error)) => {
                let unsent = error.take_message();
                Err((ForwardError::Exchange(error.into_error()), unsent))
            }
            None => Err((ForwardError::Timeout, None)),
        }
    }

    async fn send_anew(
        &self,
        request: Request<Body>,
        upload: Option<Rc<Upload>>,
    ) -> Result<(Outcome, Connection), ForwardError> {
        let mut connection = self.pool.connect(self.timeouts.connect).await?;
        let sending = connection.sender.try_send_request(request);
        let outcome = self.answered(sending, &mut connection.deadline, upload.as_deref()).await;
        Ok((outcome, connection))
    }

    /// The upstream's answer, as the client gets it.
    fn relay(&self, response: Response<Incoming>, lease: Lease, extras: Option<Box<Extras>>) -> Response<Body> {
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return match extras.and_then(|extras| Some((extras.client?, extras.upgrade?))) {
                Some((client, asked)) => upgrade::tunnel(response, client, lease, asked),
                None => self.failed(&ForwardError::UnaskedUpgrade),
            };
        }
        let (mut head, body) = response.into_parts();
        self.hygiene.clean_response(head.status, &mut head.headers);
        // Otherwise an HTTP/1.0 upstream would end the client's connection too.
        head.version = Version::HTTP_11;
        Response::from_parts(head, Body::from_upstream(body, lease, self.timeouts.read))
    }

    fn failed(&self, error: &ForwardError) -> Response<Body> {
        let failure = to_failure(error);
        let origin = self.pool.origin();
        let cause = error.chain();
        match failure {
            // The client's doing: nothing an operator could mend.
            Failure::TooLarge | Failure::ClientBody | Failure::ClientTimeout => {
                tracing::debug!(host = %origin.host, port = origin.port, cause, "cannot forward");
                failure.unrendered()
            }
            _ => {
                tracing::warn!(host = %origin.host, port = origin.port, cause, "cannot forward");
                let mut response = failure.unrendered();
                response.extensions_mut().insert(error.fault());
                response
            }
        }
    }
}

/// What came with a request beside its head.
struct Extras {
    upgrade: Option<Upgrade>,
    client: Option<OnUpgrade>,
    preserve_host: bool,
}

impl Extras {
    fn take(extensions: &mut Extensions) -> Option<Box<Self>> {
        if extensions.is_empty() {
            return None;
        }
        let upgrade = extensions.remove::<Upgrade>();
        let client = extensions.remove::<OnUpgrade>();
        let preserve_host = extensions.get::<RequestContext>().is_some_and(|context| context.preserve_host);
        extensions.clear();
        (upgrade.is_some() || preserve_host).then(|| Box::new(Self { upgrade, client, preserve_host }))
    }
}

/// Whether a request may be sent twice: its method is idempotent and it has no body to send twice.
fn replayable(head: &Parts, body: &Body) -> bool {
    let idempotent = [Method::GET, Method::HEAD, Method::OPTIONS, Method::PUT, Method::DELETE].contains(&head.method);
    idempotent && body.is_end_stream() && !head.headers.contains_key(UPGRADE)
}

/// What it takes to send a request without a body once more.
struct Replay {
    method: Method,
    uri: http::Uri,
    headers: HeaderMap,
}

impl Replay {
    fn of(head: &Parts) -> Box<Self> {
        Box::new(Self { method: head.method.clone(), uri: head.uri.clone(), headers: head.headers.clone() })
    }

    fn request(self) -> Request<Body> {
        let mut request = Request::new(Body::default());
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}
