//! The gateway as a process, over real sockets, with real upstreams and real redis-servers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub, missing_docs, dead_code)]

mod limiting;
mod readme;
mod support;
