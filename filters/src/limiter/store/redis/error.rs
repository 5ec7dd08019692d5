//! Why Redis did not decide.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use thiserror::Error;

/// Why Redis did not decide a request. Its name counts it in metrics; the user reads the message in a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
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
    #[error("redis has reached its `maxmemory`: give it more, or an eviction policy")]
    Oom,
    /// `MISCONF`: Redis cannot write its snapshot and refuses writes.
    #[error("redis refuses writes because it cannot save its snapshot")]
    Misconf,
    /// `READONLY` or `MASTERDOWN`: this is a replica.
    #[error("redis is a replica and takes no writes: `redis.url` must name the primary")]
    ReadOnly,
    /// The login was refused, or the user may not do what a limiter does.
    #[error(
        "redis refused the user: check user name and password in `redis.url`, and that the user may run SCRIPT LOAD, \
         EVALSHA, TIME, MGET and SET on `request_rate_limiter.*`"
    )]
    Auth,
    /// The server knows no `EVALSHA` or no `SCRIPT`.
    #[error(
        "redis runs no scripts: give limiters `atomicity: lock`, which goes with `fixed-window` and \
         `sliding-window-counter`, or `store: memory`"
    )]
    NoScripts,
    /// No node of a cluster keeps the key at the moment.
    #[error("no node of the redis cluster keeps the key at the moment")]
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
const NESTED: [(&str, StoreError); 6] = [
    ("differ by more than a window", StoreError::Clocks),
    ("-OOM ", StoreError::Oom),
    ("-MISCONF ", StoreError::Misconf),
    ("-READONLY ", StoreError::ReadOnly),
    ("-NOPERM ", StoreError::Auth),
    ("user executing the script can't ", StoreError::Auth),
];

impl StoreError {
    /// Every kind, in the order in which they are declared.
    pub const ALL: [Self; 13] = [
        Self::Timeout,
        Self::Disconnected,
        Self::BreakerOpen,
        Self::Loading,
        Self::Busy,
        Self::Oom,
        Self::Misconf,
        Self::ReadOnly,
        Self::Auth,
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
            Self::ReadOnly => "readonly",
            Self::Auth => "auth",
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
            ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm) => Self::Auth,
            ErrorKind::Server(ServerErrorKind::BusyLoading) => Self::Loading,
            ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown) => Self::ReadOnly,
            // Redirections that lead nowhere.
            ErrorKind::Server(
                ServerErrorKind::ClusterDown
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain,
            ) => Self::ClusterDown,
            ErrorKind::Io | ErrorKind::Parse => Self::Disconnected,
            _ => Self::of_code(error.code().unwrap_or_default(), error.detail().unwrap_or_default()),
        }
    }

    fn of_code(code: &str, detail: &str) -> Self {
        match code {
            "OOM" => Self::Oom,
            "MISCONF" => Self::Misconf,
            "BUSY" => Self::Busy,
            "NOAUTH" | "WRONGPASS" | "NOPERM" => Self::Auth,
            "ERR" if is_unknown_script_command(detail) => Self::NoScripts,
            _ => NESTED.iter().find(|(nested, _)| detail.contains(nested)).map_or(Self::Other, |&(_, kind)| kind),
        }
    }
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
            ("READONLY You can't write against a read only replica.", StoreError::ReadOnly),
            ("MASTERDOWN Link with MASTER is down", StoreError::ReadOnly),
            ("CLUSTERDOWN Hash slot not served", StoreError::ClusterDown),
            ("MOVED 1 127.0.0.1:1", StoreError::ClusterDown),
            ("NOPERM this user has no permissions", StoreError::Auth),
            ("NOAUTH Authentication required.", StoreError::Auth),
            ("ERR Error running script: @user_script:98: -OOM command not allowed", StoreError::Oom),
            ("ERR The user executing the script can't run this command or subcommand", StoreError::Auth),
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
    }
}
