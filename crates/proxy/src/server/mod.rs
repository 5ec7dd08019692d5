//! Client connections: listening, accepting, TLS, serving HTTP and draining.
//!
//! The server passes requests to any [`Handler`](crate::http::handler::Handler) and sends any response body. It imports [`crate::http`]
//! only.

pub mod accept;
pub mod activity;
pub mod client_io;
pub mod clients;
pub mod connection;
pub mod drain;
pub mod gate;
mod http2;
pub mod listener;
pub mod protocol;
mod proxy_header;
mod refusal;
mod request_line;
pub mod sniff;
pub mod stream;
