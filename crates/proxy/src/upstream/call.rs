//! One request on its way to an upstream, over all of its attempts.
//!
//! On an idle HTTP/1.1 connection the request is sent before there is a future. A future is as large as everything that it
//! may ever hold, and it is copied when it is boxed. So the rare paths (connecting, sending again) are boxed separately
//! from the path that nearly every request takes.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};

use crate::http::body::{Body, UploadProgress};
use crate::http::facts::Timer;
use crate::upstream::exchange::{ExchangeError, Progress, Repeats, exchange, poll_timeout};
use crate::upstream::forward::{Forward, outcome_of};
use crate::upstream::incoming::Incoming;
use crate::upstream::interim::InterimRelay;
use crate::upstream::pick::{Outcome, Pick};
use crate::upstream::pool::{Connection, Sender};
use crate::upstream::request::{Replay, RequestExtras, is_idempotent, prepare_head};
use crate::upstream::times::Monitor;

/// Request with what all of its attempts share.
pub(super) struct Call {
    pub(super) forward: Rc<Forward>,
    pub(super) monitor: Monitor,
    pub(super) extras: Option<Box<RequestExtras>>,
}

/// Future of a response.
pub(super) enum Forwarding {
    /// The first attempt, over HTTP/1.1; `None` once it has completed.
    First(Option<Sent>),
    /// All other requests.
    Boxed(Pin<Box<dyn Future<Output = Response<Body>>>>),
}

/// First attempt of a request.
pub(super) struct Sent {
    call: Call,
    pick: Pick,
    connection: Box<Connection>,
    /// Copy of the request, to send it again.
    replay: Option<Box<Replay>>,
    upload: Option<Rc<UploadProgress>>,
    timer: Timer,
}

impl Forwarding {
    /// Returns the future of `response`.
    pub(super) fn ready(response: Response<Body>) -> Self {
        Self::boxed(std::future::ready(response))
    }

    fn boxed(response: impl Future<Output = Response<Body>> + 'static) -> Self {
        Self::Boxed(Box::pin(response))
    }
}

impl Future for Forwarding {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let failed = match &mut *self {
            Self::Boxed(response) => return response.as_mut().poll(cx).map(Ok),
            Self::First(sent) => {
                let Some(attempt) = sent else { return Poll::Pending };
                let head = ready!(attempt.poll_head(cx));
                let Some(sent) = sent.take() else { return Poll::Pending };
                match head {
                    Ok(head) => return Poll::Ready(Ok(sent.received(head.map(|()| Incoming::Http1)))),
                    Err(error) => sent.failed(error),
                }
            }
        };
        self.set(Self::Boxed(failed));
        self.poll(cx)
    }
}

impl Sent {
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<()>, ExchangeError>> {
        let Connection { sender, deadline, .. } = &mut *self.connection;
        let Sender::Http1(http1) = sender else { return Poll::Pending };
        if let Poll::Ready(head) = http1.poll_head(cx) {
            deadline.clear();
            return Poll::Ready(head.map_err(|error| ExchangeError::http1(error, http1)));
        }
        let (timeout, upload) = (self.call.forward.timeouts.response, self.upload.as_deref());
        ready!(poll_timeout(deadline, timeout, upload, cx));
        Poll::Ready(Err(ExchangeError::timeout(upload)))
    }

    /// Sends `request` outside of the path that nearly every request takes.
    async fn exchange(mut self, request: Request<Body>) -> Response<Body> {
        let Self { call, connection, upload, timer, .. } = &mut self;
        match call.exchange(connection, request, upload.as_deref(), *timer).await {
            Ok(response) => self.received(response),
            Err(error) => self.failed(error).await,
        }
    }

    fn received(self, response: Response<Incoming>) -> Response<Body> {
        let Self { call, pick, connection, upload, timer, .. } = self;
        call.received(response, timer, pick, connection, upload)
    }

    #[cold]
    fn failed(self, error: ExchangeError) -> Pin<Box<dyn Future<Output = Response<Body>>>> {
        let Self { call, pick, replay, upload, timer, .. } = self;
        timer.responded();
        Box::pin(call.send_again(error, replay, pick, upload))
    }
}

impl Call {
    /// Sends the request, or connects to send it.
    pub(super) fn start(self, pick: Pick, mut request: Request<Body>) -> Forwarding {
        self.monitor.begin(pick.pool.origin());
        let Some(connection) = pick.pool.take_idle(self.upgrades()) else {
            return Forwarding::boxed(self.connect_and_send(pick, request));
        };
        let mut sent = match self.prepare(&mut request, pick, connection) {
            Ok(sent) => sent,
            Err(response) => return Forwarding::ready(*response),
        };
        let Some(http1) = sent.connection.http1() else { return Forwarding::boxed(sent.exchange(request)) };
        http1.start(request, InterimRelay::current(&sent.call.forward.header_policy));
        let timeout = sent.call.forward.timeouts.response;
        sent.connection.expect_head(timeout.map(|timeout| sent.timer.started() + timeout));
        Forwarding::First(Some(sent))
    }

    async fn connect_and_send(self, pick: Pick, mut request: Request<Body>) -> Response<Body> {
        let (pick, connection) = match self.connect(pick).await {
            Ok(established) => established,
            Err(response) => return response,
        };
        match self.prepare(&mut request, pick, connection) {
            Ok(sent) => sent.exchange(request).await,
            Err(response) => *response,
        }
    }

    async fn exchange(
        &self,
        connection: &mut Connection,
        request: Request<Body>,
        upload: Option<&UploadProgress>,
        timer: Timer,
    ) -> Result<Response<Incoming>, ExchangeError> {
        let relay = InterimRelay::current(&self.forward.header_policy);
        exchange(connection, request, relay, timer.started(), self.forward.timeouts.response, upload).await
    }

    fn upgrades(&self) -> bool {
        self.extras.as_deref().is_some_and(RequestExtras::upgrades)
    }

    /// Prepares the request for the first attempt, in place: a request is large, and each move copies it. Otherwise
    /// returns the response to the failure.
    fn prepare(
        self,
        request: &mut Request<Body>,
        pick: Pick,
        connection: Box<Connection>,
    ) -> Result<Sent, Box<Response<Body>>> {
        let (is_http2, extras) = (connection.is_http2(), self.extras.as_deref());
        let replay = if is_http2 { Replay::of(request) } else { None };
        if let Err(error) = prepare_head(request, pick.pool.origin(), extras, is_http2) {
            return Err(Box::new(self.forward.failed_at(&error, &pick)));
        }
        self.monitor.propagate(request.headers_mut());
        let upload = request.body().upload();
        Ok(Sent { call: self, pick, connection, replay, upload, timer: Timer::start() })
    }

    fn received(
        self,
        response: Response<Incoming>,
        timer: Timer,
        pick: Pick,
        connection: Box<Connection>,
        upload: Option<Rc<UploadProgress>>,
    ) -> Response<Body> {
        self.monitor.responded(response.status(), timer.responded());
        self.forward.relay(response, pick, connection, self.extras, upload)
    }

    /// Establishes a connection to the picked endpoint, or to the next reachable one. Otherwise returns the response
    /// to the failure.
    async fn connect(&self, mut pick: Pick) -> Result<(Pick, Box<Connection>), Response<Body>> {
        loop {
            let timer = Timer::start();
            match pick.connect(self.forward.timeouts.connect, self.upgrades()).await {
                Ok(connection) => {
                    self.monitor.connected(timer.connected());
                    return Ok((pick, connection));
                }
                Err(error) => {
                    pick.report(Outcome::ConnectFailed, Some(&error));
                    self.monitor.failed(&error);
                    self.monitor.blame(&error);
                    let response = self.forward.failed(&error, Some(pick.pool.origin()));
                    pick = pick.another().ok_or(response)?;
                    self.monitor.begin(pick.pool.origin());
                }
            }
        }
    }

    /// Sends the request again for as long as that is safe. Each attempt uses a new connection, or another HTTP/2
    /// connection, to another endpoint if there is one.
    async fn send_again(
        self,
        mut failed: ExchangeError,
        mut replay: Option<Box<Replay>>,
        mut pick: Pick,
        upload: Option<Rc<UploadProgress>>,
    ) -> Response<Body> {
        let mut repeats = Repeats::default();
        loop {
            failed = failed.after(upload.as_deref());
            self.monitor.failed(&failed.error);
            let request = failed.request.take().or_else(|| replay.as_deref().and_then(Replay::request));
            let is_repeated =
                |request: &Request<Body>| repeats.allow(failed.progress, is_idempotent(request) && !self.upgrades());
            let request = request.filter(is_repeated);
            // A connection that closes is no failure of the endpoint if it processed nothing, and the request is sent again.
            if request.is_none() || failed.progress != Progress::Unprocessed {
                self.monitor.blame(&failed.error);
            }
            let Some(mut request) = request else { return self.forward.failed_at(&failed.error, &pick) };
            if failed.progress != Progress::Unprocessed {
                pick.report(outcome_of(&failed.error), Some(&failed.error));
            }
            pick = pick.another().unwrap_or(pick);
            self.monitor.begin(pick.pool.origin());
            let mut connection = match self.connect(pick).await {
                Ok((reached, connection)) => {
                    pick = reached;
                    connection
                }
                Err(response) => return response,
            };
            let (extras, is_http2) = (self.extras.as_deref(), connection.is_http2());
            if is_http2 && replay.is_none() {
                replay = Replay::of(&mut request);
            }
            if let Err(error) = prepare_head(&mut request, pick.pool.origin(), extras, is_http2) {
                return self.forward.failed_at(&error, &pick);
            }
            self.monitor.propagate(request.headers_mut());
            let timer = Timer::start();
            failed = match self.exchange(&mut connection, request, upload.as_deref(), timer).await {
                Ok(response) => return self.received(response, timer, pick, connection, upload),
                Err(failed) => failed,
            };
            timer.responded();
        }
    }
}
