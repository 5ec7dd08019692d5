//! TLS: certificates, keys and stores of the server, clients, Redis and bundles.
//!
//! Each section names its files by keys of its own. They become [`files::Files`], which are checked and read in one way.

pub(crate) mod acme;
pub(crate) mod bundle;
pub(crate) mod client;
pub(crate) mod client_auth;
pub(crate) mod client_ssl;
pub(crate) mod files;
mod identities;
mod pem;
pub(crate) mod server;
pub(crate) mod store;
#[cfg(test)]
mod tests;
