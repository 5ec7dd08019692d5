//! Redirections by nodes of a cluster.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::redis::connection_settings::HostPort;
use crate::store::redis::hash_slot::HashSlot;

/// Redirection in place of a reply: nothing has run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// `MOVED`: another node serves the slot from now on.
    Moved(HashSlot, HostPort),
    /// `ASK`: the slot migrates, and the key is on the target already or would be created there.
    Ask(HostPort),
    /// `TRYAGAIN`: only some of several keys have migrated.
    TryAgain,
}

impl Redirect {
    /// Parses `error` of a node that was reached as `host`; `None`: it is not a redirection.
    pub(crate) fn parse(error: &RedisError, host: Option<&str>) -> Option<Self> {
        match error.kind() {
            ErrorKind::Server(ServerErrorKind::TryAgain) => Some(Self::TryAgain),
            ErrorKind::Server(ServerErrorKind::Moved) => {
                let (slot, at) = target(error.detail()?, host)?;
                Some(Self::Moved(slot, at))
            }
            ErrorKind::Server(ServerErrorKind::Ask) => Some(Self::Ask(target(error.detail()?, host)?.1)),
            _ => None,
        }
    }
}

/// Parses `<slot> <host>:<port>`. An IPv6 address has no brackets; an empty host is `replying_host`.
fn target(detail: &str, replying_host: Option<&str>) -> Option<(HashSlot, HostPort)> {
    let (slot, address) = detail.split_once(' ')?;
    let (host, port) = address.trim_end().rsplit_once(':')?;
    let host = match host {
        "" => replying_host?,
        "?" => return None,
        host => host,
    };
    Some((HashSlot::new(slot.parse().ok()?)?, HostPort { host: host.to_owned(), port: port.parse().ok()? }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn parsed(reply: &str) -> Option<Redirect> {
        let value = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap();
        Redirect::parse(&value.extract_error().unwrap_err(), Some("asked"))
    }

    #[test]
    fn redirections_are_distinguished_from_errors() {
        let at = |host: &str, port| HostPort { host: host.into(), port };
        let slot = |number| HashSlot::new(number).unwrap();
        for (reply, redirect) in [
            ("MOVED 3999 127.0.0.1:6381", Some(Redirect::Moved(slot(3999), at("127.0.0.1", 6381)))),
            ("MOVED 0 ::1:6381", Some(Redirect::Moved(slot(0), at("::1", 6381)))),
            ("MOVED 1 :6381", Some(Redirect::Moved(slot(1), at("asked", 6381)))),
            ("ASK 16383 redis-2.example:6379", Some(Redirect::Ask(at("redis-2.example", 6379)))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Redirect::TryAgain)),
            ("MOVED 16384 127.0.0.1:1", None),
            ("MOVED 1 ?:6381", None),
            ("MOVED 1 host", None),
            ("MOVED", None),
            ("ERR something", None),
        ] {
            assert_eq!(parsed(reply), redirect, "{reply}");
        }
    }
}
