//! HTTP types that all other modules of this crate use: bodies, boxed services, failures, upgrades and deadlines.
//!
//! This module imports no other top-level module of the crate. Other modules provide their types through traits: the
//! server implements [`handler::ConnectionHandle`] for its connections, and the upstream passes its
//! response bodies to [`body::Body::boxed`].

pub mod attempts;
pub mod body;
pub mod client_certificate;
pub mod deadline;
pub mod facts;
pub mod failure;
pub mod fields;
pub mod handler;
pub mod interim;
pub mod proxy_header;
pub mod read_gate;
pub mod request_id;
pub mod service;
pub mod sockets;
pub mod trailers;
pub mod upgrade;
