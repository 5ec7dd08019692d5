//! Why Redis did not decide.

use std::error::Error;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why Redis did not decide a request. Its name counts it in metrics; the user reads the message in a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StoreError {
    /// No answer within the budget.
    #[error("redis did not answer in time: look for slow commands, or raise `redis.timeout`")]
    Timeout,
    /// No connection is live, or it broke before the answer.
    #[error("there is no connection to redis")]
    Disconnected,
    /// Redis failed moments ago and is not asked.
    #[error("redis failed moments ago and is not asked for now")]
    BreakerOpen,
    /// `LOADING`: Redis reads its data set.
    #[error("redis is loading its data set")]
    Loading,
    /// `BUSY`: a script of somebody's runs for too long.
    #[error("redis is busy with a script that runs for too long")]
    Busy,
    /// `OOM`: Redis may not take more memory.
    #[error("redis has reached its `maxmemory`: give it more")]
    Oom,
    /// `MISCONF`: Redis cannot write its snapshot and refuses writes.
    #[error("redis refuses writes because it cannot save its snapshot")]
    Misconf,
    /// `NOREPLICAS`: too few replicas follow the primary (`min-replicas-to-write`).
    #[error("redis refuses writes because too few replicas are connected to it")]
    NoReplicas,
    /// `READONLY` or `MASTERDOWN`: this is a replica.
    #[error("redis is a replica and takes no writes: `redis.url` must name the primary")]
    ReadOnly,
    /// The login was refused, or there was none.
    #[error(
        "redis refused the login: check user name and password, in `redis.url` or `redis.username` and `redis.password`"
    )]
    Auth,
    /// The user may not do what is asked of Redis.
    #[error(
        "redis does not let its user do this: grant it the command or the keys that it names (docs/redis.md, Rights)"
    )]
    NoPerm,
    /// No TLS connection came about.
    #[error(
        "redis and the gateway do not agree on TLS: check `redis.tls.ca`, that the server's certificate is for the host \
         in use, and whether it wants one of this client (`redis.tls.cert`, `redis.tls.key`)"
    )]
    Tls,
    /// The server knows no `EVALSHA` or no `SCRIPT`.
    #[error(
        "redis runs no scripts: give limiters `atomicity: lock`, which goes with `fixed-window` and \
         `sliding-window-counter`, or `store: memory`"
    )]
    NoScripts,
    /// No node of a cluster keeps the key at the moment.
    #[error(
        "no node of the redis cluster keeps the key at the moment; a node of a cluster is named under \
         `redis.cluster.nodes`, and not in `redis.url`"
    )]
    ClusterDown,
    /// Redis' time is in none of the windows that this machine's time is near.
    #[error("the clocks of redis and of this machine differ by more than a window")]
    Clocks,
    /// Anything else, such as an answer that makes no sense.
    #[error("redis answered with an error that the limiter does not know")]
    Other,
}

/// What a plain `ERR` of a script carries inside: codes as `-OOM ...` before Redis 7, and since then, without a code,
/// that the user may not run a command or touch a key.
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
    /// Every kind, in the order in which they are declared.
    pub const ALL: [Self; 16] = [
        Self::Timeout,
        Self::Disconnected,
        Self::BreakerOpen,
        Self::Loading,
        Self::Busy,
        Self::Oom,
        Self::Misconf,
        Self::NoReplicas,
        Self::ReadOnly,
        Self::Auth,
        Self::NoPerm,
        Self::Tls,
        Self::NoScripts,
        Self::ClusterDown,
        Self::Clocks,
        Self::Other,
    ];

    /// The word for it in metrics and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Disconnected => "disconnected",
            Self::BreakerOpen => "breaker_open",
            Self::Loading => "loading",
            Self::Busy => "busy",
            Self::Oom => "oom",
            Self::Misconf => "misconf",
            Self::NoReplicas => "noreplicas",
            Self::ReadOnly => "readonly",
            Self::Auth => "auth",
            Self::NoPerm => "noperm",
            Self::Tls => "tls",
            Self::NoScripts => "no_scripts",
            Self::ClusterDown => "cluster_down",
            Self::Clocks => "clocks",
            Self::Other => "other",
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// What a client error means here.
    pub(super) fn of(error: &RedisError) -> Self {
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Auth,
            ErrorKind::Server(ServerErrorKind::NoPerm) => Self::NoPerm,
            ErrorKind::Server(ServerErrorKind::BusyLoading) => Self::Loading,
            ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => Self::ReadOnly,
            // Redirections that lead nowhere.
            ErrorKind::Server(
                ServerErrorKind::ClusterDown
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain,
            ) => Self::ClusterDown,
            ErrorKind::Io if is_of_tls(error) => Self::Tls,
            ErrorKind::Io | ErrorKind::Parse => Self::Disconnected,
            _ => Self::of_code(error.code().unwrap_or_default(), error.detail().unwrap_or_default()),
        }
    }

    fn of_code(code: &str, detail: &str) -> Self {
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

/// Whether a connection failed because of TLS: only there data that was read can be wrong. What Redis said would be
/// [`ErrorKind::Parse`].
fn is_of_tls(error: &RedisError) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<Arc<dyn Error + Send + Sync>>());
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    source.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData)
}

/// Whether a server says that it does not know a command with which scripts are loaded or run: ``unknown command `EVALSHA`,
/// with args ...``, in one quote or another.
fn is_unknown_script_command(detail: &str) -> bool {
    let name = detail.strip_prefix("unknown command ").map(|rest| rest.trim_start_matches(['\'', '`', '"']));
    name.is_some_and(|name| {
        let end = name.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(name.len());
        ["EVALSHA", "SCRIPT"].iter().any(|known| name[..end].eq_ignore_ascii_case(known))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn of_reply(reply: &str) -> StoreError {
        let value = redis::parse_redis_value(format!("-{reply}\r\n").as_bytes()).unwrap();
        StoreError::of(&value.extract_error().unwrap_err())
    }

    #[test]
    fn every_kind_has_its_place() {
        assert!(StoreError::ALL.iter().enumerate().all(|(index, kind)| kind.index() == index));
    }

    #[test]
    fn error_replies_are_told_apart() {
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
            ("ERR unknown command 'SCRIPT', with args beginning with: 'LOAD' 'x' ", StoreError::NoScripts),
            ("ERR unknown command `evalsha`, with args beginning with: `0a`, ", StoreError::NoScripts),
            ("ERR unknown command 'HGET', with args beginning with: 'EVALSHA' ", StoreError::Other),
            ("ERR unknown command 'EVALSHAX'", StoreError::Other),
        ] {
            assert_eq!(of_reply(reply), kind, "{reply}");
        }
    }

    #[test]
    fn a_broken_connection_is_one() {
        let broken = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(StoreError::of(&broken), StoreError::Disconnected);
        let garbled = RedisError::from(std::io::Error::from(std::io::ErrorKind::InvalidData));
        assert_eq!(StoreError::of(&garbled), StoreError::Tls);
    }
}
