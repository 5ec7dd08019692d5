//! Reasons why Redis did not decide.

use std::error::Error;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

crate::labelled! {
    /// Reason why Redis did not decide a request. [`as_str`](Self::as_str) labels it in metrics; the message is for the log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
    #[non_exhaustive]
    pub enum StoreError {
        /// No reply before the deadline.
        #[error("redis did not reply in time: look for slow commands, or raise the timeout")]
        Timeout = "timeout",
        /// No connection is live, or it broke before the reply.
        #[error("no connection to redis")]
        Disconnected = "disconnected",
        /// The circuit breaker is open after recent failures.
        #[error("the circuit breaker for redis is open after recent failures")]
        BreakerOpen = "breaker_open",
        /// `LOADING`: Redis reads its data set.
        #[error("redis is loading its data set")]
        Loading = "loading",
        /// `BUSY`: a script, possibly of another client, exceeds its time limit.
        #[error("redis is busy with a script that exceeds its time limit")]
        Busy = "busy",
        /// `OOM`: Redis has reached `maxmemory`.
        #[error("redis has reached its `maxmemory`: raise it")]
        Oom = "oom",
        /// `MISCONF`: Redis cannot write its snapshot and refuses writes.
        #[error("redis refuses writes because it cannot save its snapshot")]
        Misconf = "misconf",
        /// `NOREPLICAS`: fewer replicas are connected than `min-replicas-to-write`.
        #[error("redis refuses writes because too few replicas are connected to it")]
        NoReplicas = "noreplicas",
        /// `READONLY` or `MASTERDOWN`: the server is a replica.
        #[error("redis is a replica and takes no writes: the URL must name the primary")]
        ReadOnly = "readonly",
        /// The credentials were refused, or missing.
        #[error("redis refused the login: check user name and password")]
        Auth = "auth",
        /// The user lacks a permission (ACL).
        #[error("the redis user lacks a permission: grant it the command or the key that redis names")]
        NoPerm = "noperm",
        /// The TLS handshake failed.
        #[error(
            "the TLS handshake with redis failed: check the trusted CA certificates, that the server's certificate is \
             for the host in use, and whether the server requires a client certificate"
        )]
        Tls = "tls",
        /// The server does not know `EVALSHA` or `EVAL`.
        #[error(
            "redis runs no scripts: decide under a lock, which supports fixed windows, sliding window logs and sliding window \
             counters, or in memory"
        )]
        NoScripts = "no_scripts",
        /// No node of the cluster serves the key's slot.
        #[error(
            "no node of the redis cluster serves the key's slot: look for a lost slot range with \
             `redis-cli --cluster check HOST:PORT`"
        )]
        ClusterDown = "cluster_down",
        /// Redis' time is outside of the calendar windows that this machine sent.
        #[error("the clocks of redis and of this machine differ by more than a window")]
        Clocks = "clocks",
        /// Any other error, such as an invalid reply.
        #[error("redis replied with an unknown error")]
        Other = "other",
    }
}

/// Returns a program's names of the settings to look at after an error: keys of its configuration.
pub type Advice = fn(StoreError) -> Option<&'static str>;

/// Returns no advice: a program without a configuration has none.
pub(crate) fn no_advice(_: StoreError) -> Option<&'static str> {
    None
}

/// Texts within a plain `ERR` of a script: error codes as `-OOM ...` before Redis 7, and permission errors without a code
/// since then.
const NESTED: [(&str, StoreError); 8] = [
    ("differ by more than a window", StoreError::Clocks),
    ("-OOM ", StoreError::Oom),
    ("-MISCONF ", StoreError::Misconf),
    ("-NOREPLICAS ", StoreError::NoReplicas),
    ("-READONLY ", StoreError::ReadOnly),
    ("-NOPERM ", StoreError::NoPerm),
    ("user executing the script can't ", StoreError::NoPerm),
    ("ACL failure in script", StoreError::NoPerm),
];

impl StoreError {
    /// Classifies an error of the driver.
    pub(crate) fn classify(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Auth,
            ErrorKind::Server(ServerErrorKind::NoPerm) => Self::NoPerm,
            ErrorKind::Server(ServerErrorKind::BusyLoading) => Self::Loading,
            ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => Self::ReadOnly,
            // Redirections that could not be followed.
            ErrorKind::Server(
                ServerErrorKind::ClusterDown
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain,
            ) => Self::ClusterDown,
            ErrorKind::Io if is_tls_error(error) => Self::Tls,
            ErrorKind::Io | ErrorKind::Parse => Self::Disconnected,
            _ => Self::from_code(error.code().unwrap_or_default(), error.detail().unwrap_or_default()),
        }
    }

    fn from_code(code: &str, detail: &str) -> Self {
        match code {
            "OOM" => Self::Oom,
            "MISCONF" => Self::Misconf,
            "NOREPLICAS" => Self::NoReplicas,
            "BUSY" => Self::Busy,
            "NOAUTH" | "WRONGPASS" => Self::Auth,
            "NOPERM" => Self::NoPerm,
            "ERR" if is_unknown_script_command(detail) => Self::NoScripts,
            _ => NESTED.iter().find(|(nested, _)| detail.contains(nested)).map_or(Self::Other, |&(_, kind)| kind),
        }
    }
}

/// Message of the server or the operating system. The driver adds no credentials. A server that repeats an unknown
/// command, such as `HELLO 3 AUTH …`, is cut short.
pub(crate) fn describe(error: &RedisError) -> String {
    let text = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => {
            format!("{code} {}", detail.split_once(", with args beginning with").map_or(detail, |(start, _)| start))
        }
        _ => error.to_string(),
    };
    let has_no_resp3 = error.kind() == ErrorKind::RESP3NotSupported
        || error.code() == Some("NOPROTO")
        || error.code() == Some("ERR") && text.to_ascii_uppercase().contains("HELLO");
    if has_no_resp3 { text + ": the server may need the protocol RESP2" } else { text }
}

/// Returns true if a connection failed because of TLS: only the TLS layer reports invalid data. Invalid replies of
/// Redis are [`ErrorKind::Parse`].
fn is_tls_error(error: &RedisError) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
}

/// Returns true if the server does not know a command that runs scripts: ``unknown command `EVALSHA`, with args ...``, in
/// any kind of quotes.
fn is_unknown_script_command(detail: &str) -> bool {
    let name = detail.strip_prefix("unknown command ").map(|rest| rest.trim_start_matches(['\'', '`', '"']));
    name.is_some_and(|name| {
        let end = name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
        ["EVALSHA", "EVAL"].iter().any(|command| name[..end].eq_ignore_ascii_case(command))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn of_reply(reply: &str) -> StoreError {
        let value = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap();
        StoreError::classify(&value.extract_error().unwrap_err())
    }

    #[test]
    fn every_reason_has_its_index() {
        assert!(StoreError::ALL.iter().enumerate().all(|(index, kind)| *kind as usize == index));
    }

    #[test]
    fn error_replies_are_classified() {
        for (reply, kind) in [
            ("LOADING Redis is loading the dataset in memory", StoreError::Loading),
            ("BUSY Redis is busy running a script", StoreError::Busy),
            ("OOM command not allowed when used memory > 'maxmemory'.", StoreError::Oom),
            ("MISCONF Redis is configured to save RDB snapshots", StoreError::Misconf),
            ("NOREPLICAS Not enough good replicas to write.", StoreError::NoReplicas),
            ("READONLY You can't write against a read only replica.", StoreError::ReadOnly),
            ("MASTERDOWN Link with MASTER is down", StoreError::ReadOnly),
            ("CLUSTERDOWN Hash slot not served", StoreError::ClusterDown),
            ("MOVED 1 127.0.0.1:1", StoreError::ClusterDown),
            ("NOPERM this user has no permissions", StoreError::NoPerm),
            ("ERR ACL failure in script: User u has no permissions to run the 'set' command", StoreError::NoPerm),
            ("NOAUTH Authentication required.", StoreError::Auth),
            ("ERR Error running script: @user_script:98: -OOM command not allowed", StoreError::Oom),
            ("ERR The user executing the script can't run this command or subcommand", StoreError::NoPerm),
            ("ERR the clocks of this server and of the gateway differ by more than a window", StoreError::Clocks),
            ("ERR rate must be a whole number", StoreError::Other),
            ("ERR unknown command 'EVAL', with args beginning with: 'return 1' '0' ", StoreError::NoScripts),
            ("ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' 'x' ", StoreError::Other),
            ("ERR unknown command `evalsha`, with args beginning with: `0a`, ", StoreError::NoScripts),
            ("ERR unknown command 'HGET', with args beginning with: 'EVALSHA' ", StoreError::Other),
            ("ERR unknown command 'EVALSHAX'", StoreError::Other),
        ] {
            assert_eq!(of_reply(reply), kind, "{reply}");
        }
    }

    #[test]
    fn a_server_without_hello_is_reported_with_the_setting_for_it() {
        for (reply, hints) in [
            ("ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'u' 's3cret' ", true),
            ("ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `u`, `s3cret`, ", true),
            ("ERR unsupported command 'hello'", true),
            ("NOPROTO unsupported protocol version", true),
            ("WRONGPASS invalid username-password pair or user is disabled.", false),
            ("ERR invalid DB index", false),
        ] {
            let value = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap();
            let text = describe(&value.extract_error().unwrap_err());
            assert_eq!((text.contains("the protocol RESP2"), text.contains("s3cret")), (hints, false), "{text}");
        }
    }

    #[test]
    fn a_broken_connection_is_classified_as_disconnected() {
        let broken = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(StoreError::classify(&broken), StoreError::Disconnected);
        let garbled = RedisError::from(std::io::Error::from(std::io::ErrorKind::InvalidData));
        assert_eq!(StoreError::classify(&garbled), StoreError::Tls);
    }
}
