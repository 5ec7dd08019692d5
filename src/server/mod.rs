//! Listening, accepting, serving and draining: knows connections, not what the requests on them mean.

pub mod accept;
pub mod connection;
pub mod drain;
pub mod io;
pub mod listener;
pub mod sniff;
pub mod stream;
pub mod turns;
