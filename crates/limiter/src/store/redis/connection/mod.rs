//! Connections: addresses and credentials, TLS, the handshake, sending, and batching of calls.

mod batcher;
mod connector;
mod context;
mod handshake;
mod send;
mod slot;
mod tls;

pub(crate) use self::batcher::Batcher;
pub(crate) use self::connector::Connector;
pub(crate) use self::context::ConnectionContext;
pub(crate) use self::handshake::{CONNECT_TIMEOUT, check_primary, connect, open, pipelined_config};
pub(crate) use self::send::{ScriptForm, create_missing_keys, send_script};
pub(crate) use self::slot::{ConnectionSlot, LiveConnection, STABLE_AFTER};
