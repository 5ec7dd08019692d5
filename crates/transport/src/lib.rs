//! Ground floor of the clients that the gateway itself uses: tasks of one thread, TLS with the fields of certificates, and a small HTTP
//! client.

pub mod certificate;
pub mod executor;
pub mod small_client;
pub mod tls;

use std::error::Error;

/// Returns `error` and its causes, one after the other.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// Formats `error` and its causes on one line.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
