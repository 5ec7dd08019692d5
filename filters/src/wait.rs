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

    /// Forwards the request, or returns the response to it.
    fn resume(self, outcome: Self::Outcome) -> ControlFlow<Self::Response, Self::Future>;
}

pin_project! {
    /// Future of a request that is not refused at once. Dropping it while the store decides cancels the call.
    ///
    /// The wait is boxed without the service and the body, which may not be `Send`.
    #[project = AdmittedProj]
    pub enum Admitted<H: HeldRequest> {
        Forwarded { #[pin] inner: H::Future },
        // No request is held after the wait.
        Waiting { wait: Pin<Box<dyn Future<Output = H::Outcome> + Send>>, held: Option<H> },
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
            let (wait, held) = match self.as_mut().project() {
                AdmittedProj::Forwarded { inner } => return inner.poll(cx),
                AdmittedProj::Waiting { wait, held } => (wait, held),
            };
            let outcome = ready!(wait.as_mut().poll(cx));
            let Some(held) = held.take() else { return Poll::Pending };
            match held.resume(outcome) {
                ControlFlow::Break(response) => return Poll::Ready(Ok(response)),
                ControlFlow::Continue(inner) => self.set(Self::Forwarded { inner }),
            }
        }
    }
}
