//! Future of the response to one request.

use std::any::Any;
use std::convert::Infallible;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Response, StatusCode};
use tollgate_filters::context::{Degraded, LocalReply, RefusalDetail, Tunnel};

use crate::gateway::error_form::ErrorForm;
use crate::gateway::respond::render;
use crate::http::body::Body;
use crate::http::facts;
use crate::http::failure::Failure;
use crate::http::service::ResponseFuture;
use crate::http::upgrade::TunnelState;
use crate::instrumentation::record::{Record, RecordedBody};
use crate::instrumentation::traces::request::RequestTrace;
use tollgate_transport::executor::spawn_boxed;

/// Future of the response to one request.
pub struct GatewayFuture {
    pub(super) progress: Progress,
    pub(super) form: ErrorForm,
    pub(super) record: Option<Box<Record>>,
}

/// State of a [`GatewayFuture`].
pub(super) enum Progress {
    Running(ResponseFuture),
    Refused(Option<Failure>),
}

impl Future for GatewayFuture {
    type Output = Response<RecordedBody<Body>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response<RecordedBody<Body>>> {
        let Self { progress, record, .. } = &mut *self;
        let response = match progress {
            Progress::Running(running) => ready!(poll_layers(running, record.as_deref_mut(), cx)),
            Progress::Refused(failure) => failure.take().unwrap_or(Failure::Internal).unrendered(),
        };
        Poll::Ready(self.finish(response))
    }
}

/// Polls the layers of the route. A panic ends this request only.
fn poll_layers(
    running: &mut ResponseFuture,
    mut record: Option<&mut Record>,
    cx: &mut Context<'_>,
) -> Poll<Response<Body>> {
    let mut facts = record.as_mut().and_then(|record| record.take_facts());
    let scope = record.as_ref().and_then(|record| record.trace()).map(RequestTrace::enter);
    let collection = facts::collect(&mut facts);
    let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)));
    drop((collection, scope));
    if let Some(record) = record {
        record.set_facts(facts);
    }
    match polled {
        Ok(polled) => polled.map(|Ok(response)| response),
        Err(panic) => Poll::Ready(panic_failure(&*panic).unrendered()),
    }
}

impl GatewayFuture {
    fn finish(&mut self, mut response: Response<Body>) -> Response<RecordedBody<Body>> {
        let (mut reason, mut is_degraded, mut tunnel) = (None, false, None);
        if !response.extensions().is_empty() {
            reason = response.extensions().get::<LocalReply>().map(|reply| reply.reason);
            is_degraded = response.extensions().get::<Degraded>().is_some();
            tunnel = response.extensions().get::<Tunnel>().cloned();
            if response.status() == StatusCode::BAD_REQUEST
                && let Some(record) = &mut self.record
            {
                record_detail(record, &response);
            }
            render(&mut response, self.form.accepts_problem);
        }
        if let Some(fields) = &self.form.fields {
            fields.add(self.form.uses_tls, &mut response);
        }
        let status = response.status();
        if let Some(caller) = self.form.rpc.take() {
            caller.translate(&mut response);
        }
        let mut record = self.record.take();
        if let Some(record) = &mut record {
            record.answered(status, reason);
            if let Some(id) = record.request_id() {
                id.set(response.headers_mut());
            }
            if is_degraded {
                record.degraded();
            }
        }
        if let Some(tunnel) = tunnel {
            let state = response.extensions().get::<TunnelState>().cloned().unwrap_or_default();
            record = record.and_then(|record| hold_until_closed(&tunnel, state, record));
        }
        response.map(|body| RecordedBody::new(body, record))
    }
}

/// Records the reason for which the gateway or a filter refused a request.
fn record_detail(record: &mut Record, refusal: &Response<Body>) {
    if let Some(RefusalDetail(detail)) = refusal.extensions().get() {
        record.refused(|| Arc::clone(detail));
    } else if let Some(failure) = refusal.extensions().get::<Arc<Failure>>() {
        record.refused(|| failure.to_string().into());
    }
}

/// Keeps the record of a request until its tunnel closes, so that its log line has the time and is written then.
fn hold_until_closed(tunnel: &Tunnel, state: TunnelState, mut record: Box<Record>) -> Option<Box<Record>> {
    record.tunnel_opened();
    let (open, closed) = tokio::sync::oneshot::channel::<Infallible>();
    tunnel.hold(open);
    spawn_boxed(async move {
        let _ = closed.await;
        if state.was_idle() {
            record.tunnel_timed_out();
        }
        drop(record);
    });
    None
}

/// Logs a panic, and returns the failure to respond with.
pub(super) fn panic_failure(panic: &(dyn Any + Send)) -> Failure {
    tracing::error!(panic = panic_text(panic), "request failed: panic in the gateway");
    Failure::Internal
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}
