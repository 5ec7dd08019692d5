//! The innermost service of every chain: sends the request to the upstream and hands back its answer, or the answer
//! to what went wrong. Nothing is buffered either way.

use std::error::Error;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use http::header::{CONNECTION, HOST, HeaderMap, HeaderValue, TE, UPGRADE};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use thiserror::Error as ThisError;
use tokio::time::Instant;
use tollgate_filters::context::RequestContext;
use tollgate_filters::reply::prefers_problem;
use tollgate_filters::request_size::BodyTooLarge;

use super::forwarded;
use super::headers::{Hygiene, upgrade_of};
use super::pool::{ConnectError, Connection, Lease, Pool};
use super::upgrade;
use crate::body::{Body, BodyError, Upload};
use crate::gateway::context::Peer;
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

/// Why there is no answer.
#[derive(Debug, ThisError)]
enum ForwardError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the exchange with the upstream failed")]
    Exchange(#[source] hyper::Error),
    #[error("the upstream did not answer in time")]
    Timeout,
}

/// A failed exchange. `unsent` is the request where no byte of it was written.
struct Broken {
    error: ForwardError,
    unsent: Option<Request<Body>>,
}

impl Forward {
    /// Sends the request; never fails but with an answer that says so.
    pub async fn forward(self: Rc<Self>, request: Request<Body>) -> Response<Body> {
        let (mut head, body) = request.into_parts();
        let as_problem = prefers_problem(&head.headers);
        let client_upgrade = head.extensions.remove::<hyper::upgrade::OnUpgrade>();
        let protocol = upgrade_of(head.version, &head.headers).filter(|_| client_upgrade.is_some());
        let peer = self.prepare(&mut head, protocol.as_ref());
        let replay = replayable(&head, &body).then(|| Replay::of(&head));
        let request = Request::from_parts(head, body);
        match self.exchange(request, replay).await {
            Ok((response, lease)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                match (protocol, client_upgrade, peer) {
                    (Some(_), Some(client), Some(peer)) => upgrade::tunnel(response, client, lease, &peer),
                    _ => self.failed("the upstream switched protocols unasked", None, as_problem),
                }
            }
            Ok((response, lease)) => self.answer(response, lease),
            Err(error) => self.failed("cannot forward", Some(&error), as_problem),
        }
    }

    /// Makes the upstream's request head of the client's. Returns what the connection's own task must be told of.
    fn prepare(&self, head: &mut Parts, protocol: Option<&HeaderValue>) -> Option<Peer> {
        let peer = head.extensions.remove::<Peer>();
        let preserve_host = head.extensions.remove::<RequestContext>().is_some_and(|context| context.preserve_host);
        let trusted: Option<SocketAddr> = peer.as_ref().filter(|peer| peer.trusted).map(|peer| peer.address);
        let told = self.hygiene.clean_request(&mut head.headers, trusted.is_some());
        if let Some(address) = trusted {
            forwarded::append(&mut head.headers, address);
        }
        if !preserve_host || !head.headers.contains_key(HOST) {
            head.headers.insert(HOST, self.pool.origin().authority.clone());
        }
        if let Some(protocol) = protocol {
            head.headers.insert(UPGRADE, protocol.clone());
            head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        } else if told.trailers {
            head.headers.insert(TE, HeaderValue::from_static("trailers"));
            head.headers.insert(CONNECTION, HeaderValue::from_static("te"));
        }
        head.version = Version::HTTP_11;
        peer
    }

    /// One exchange, or two: what a connection did not even take, and what may be repeated (RFC 9110 §9.2.2) and was
    /// broken off before its answer, is sent once more on a new connection.
    async fn exchange(
        &self,
        request: Request<Body>,
        replay: Option<Replay>,
    ) -> Result<(Response<Incoming>, Lease), ForwardError> {
        let upload = request.body().upload();
        let first = match self.pool.take_idle() {
            Some(kept) => kept,
            None => self.pool.connect(self.timeouts.connect).await?,
        };
        let broken = match self.send(first, request, upload.as_deref()).await {
            Ok(answered) => return Ok(answered),
            Err(broken) => broken,
        };
        let again = match (broken.unsent, broken.error, replay) {
            (Some(unsent), _, _) => unsent,
            // What came was an answer, if no valid one: to ask again would bring the same.
            (None, ForwardError::Exchange(error), Some(replay)) if !error.is_parse() => replay.request(),
            (None, error, _) => return Err(error),
        };
        let fresh = self.pool.connect(self.timeouts.connect).await?;
        self.send(fresh, again, upload.as_deref()).await.map_err(|broken| broken.error)
    }

    async fn send(
        &self,
        mut connection: Connection,
        request: Request<Body>,
        upload: Option<&Upload>,
    ) -> Result<(Response<Incoming>, Lease), Broken> {
        if !connection.reused {
            // A connection just opened says that it is ready once its task has been polled.
            if let Err(error) = connection.sender.ready().await {
                return Err(Broken { error: ForwardError::Exchange(error), unsent: Some(request) });
            }
        }
        let patience = self.timeouts.response;
        match patience {
            Some(patience) => connection.deadline.set(Instant::now() + patience),
            None => connection.deadline.clear(),
        }
        let mut answer = pin!(connection.sender.try_send_request(request));
        let deadline = &mut connection.deadline;
        let outcome = poll_fn(|cx| {
            if let Poll::Ready(outcome) = answer.as_mut().poll(cx) {
                return Poll::Ready(Some(outcome));
            }
            while deadline.poll_expired(cx).is_ready() {
                match later(patience, upload) {
                    Some(at) => deadline.set(at),
                    None => return Poll::Ready(None),
                }
            }
            Poll::Pending
        })
        .await;
        match outcome {
            Some(Ok(response)) => {
                connection.deadline.clear();
                Ok((response, Lease::new(Rc::clone(&self.pool), connection)))
            }
            Some(Err(mut error)) => {
                let unsent = error.take_message();
                Err(Broken { error: ForwardError::Exchange(error.into_error()), unsent })
            }
            None => Err(Broken { error: ForwardError::Timeout, unsent: None }),
        }
    }

    fn answer(&self, response: Response<Incoming>, lease: Lease) -> Response<Body> {
        let (mut head, body) = response.into_parts();
        self.hygiene.clean_response(head.status, &mut head.headers);
        // Otherwise an HTTP/1.0 upstream would end the client's connection too.
        head.version = Version::HTTP_11;
        Response::from_parts(head, Body::from_upstream(body, lease, self.timeouts.read))
    }

    fn failed(&self, what: &str, error: Option<&ForwardError>, as_problem: bool) -> Response<Body> {
        let failure = error.map_or(Failure::BadGateway, to_failure);
        let origin = self.pool.origin();
        let cause = error.map(chain).unwrap_or_default();
        match failure {
            // The client's doing: nothing an operator could mend.
            Failure::TooLarge | Failure::ClientBody | Failure::ClientTimeout => {
                tracing::debug!(host = %origin.host, port = origin.port, cause, "{what}");
            }
            _ => tracing::warn!(host = %origin.host, port = origin.port, cause, "{what}"),
        }
        failure.into_response(as_problem)
    }
}

/// A later deadline, where the client's body came on since: an upstream cannot answer what it has not yet got.
fn later(patience: Option<Duration>, upload: Option<&Upload>) -> Option<Instant> {
    let at = upload?.last_progress()? + patience?;
    (at > Instant::now()).then_some(at)
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
    fn of(head: &Parts) -> Self {
        Self { method: head.method.clone(), uri: head.uri.clone(), headers: head.headers.clone() }
    }

    fn request(self) -> Request<Body> {
        let mut request = Request::new(Body::default());
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        request
    }
}

fn to_failure(error: &ForwardError) -> Failure {
    match error {
        ForwardError::Timeout | ForwardError::Connect(ConnectError::Timeout) => Failure::GatewayTimeout,
        ForwardError::Connect(_) => Failure::Unreachable,
        ForwardError::Exchange(error) => causes(error).find_map(clients_part).unwrap_or(Failure::BadGateway),
    }
}

/// The client's part in a failed exchange, if `error` says that its body was the failure.
fn clients_part(error: &(dyn Error + 'static)) -> Option<Failure> {
    if error.is::<BodyTooLarge>() {
        return Some(Failure::TooLarge);
    }
    match error.downcast_ref::<BodyError>()? {
        BodyError::ClientStalled => Some(Failure::ClientTimeout),
        BodyError::Client(_) => Some(Failure::ClientBody),
        _ => None,
    }
}

/// `error` and what caused it, one after the other.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

fn chain(error: &ForwardError) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
