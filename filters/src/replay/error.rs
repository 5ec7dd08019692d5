//! Errors of replayed bodies.

use thiserror::Error;

/// An error of a [`ReplayBody`](super::ReplayBody).
#[derive(Debug, Error)]
pub enum ReplayError<E> {
    /// An error of the body itself.
    #[error(transparent)]
    Inner(E),
    /// Another attempt reads the body now.
    #[error("the request is being sent again")]
    Superseded,
}
