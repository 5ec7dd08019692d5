//! Response future of filters that may wait for a store before they forward a request.

use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

/// Request that is held back while the store decides, and what forwards it.
pub trait HeldRequest {
    /// Result of the wait.
    type Outcome;
    /// Response to the request.
    type Response;
    /// Future of the inner service's response.
    type Future;

    /// Waits for the store.
    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Self::Outcome>;

    /// Forwards the request, or returns the response to it.
    fn resume(self: Box<Self>, outcome: Self::Outcome) -> ControlFlow<Self::Response, Self::Future>;
}

pin_project! {
    /// Future of a request that is not refused at once. Dropping it while the store decides cancels the call.
    #[project = AdmittedProj]
    pub enum Admitted<H: HeldRequest> {
        Forwarded { #[pin] inner: H::Future },
        // Boxed, so that futures that never wait stay small. No request is held after the wait.
        Waiting { held: Option<Box<H>> },
    }
}

impl<H: HeldRequest> Admitted<H> {
    /// Waits for the store.
    pub(crate) fn wait(held: H) -> Self {
        Self::Waiting { held: Some(Box::new(held)) }
    }
}

impl<H, E> Future for Admitted<H>
where
    H: HeldRequest,
    H::Future: Future<Output = Result<H::Response, E>>,
{
    type Output = Result<H::Response, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let held = match self.as_mut().project() {
                AdmittedProj::Forwarded { inner } => return inner.poll(cx),
                AdmittedProj::Waiting { held } => held,
            };
            let Some(waiting) = held else { return Poll::Pending }; // polled after completion
            let outcome = ready!(waiting.poll_outcome(cx));
            let Some(held) = held.take() else { return Poll::Pending };
            match held.resume(outcome) {
                ControlFlow::Break(response) => return Poll::Ready(Ok(response)),
                ControlFlow::Continue(inner) => self.set(Self::Forwarded { inner }),
            }
        }
    }
}
