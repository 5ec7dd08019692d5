//! Ground floor of the clients that the gateway itself uses: tasks of one thread, TLS with the fields of certificates, and a small HTTP
//! client.

pub mod certificate;
pub mod error_chain;
pub mod executor;
pub mod small_client;
pub mod tls;
