//! Faults between a client and Redis.

use std::borrow::Cow;
use std::time::Duration;

/// Fault. It affects commands that arrive while it is set. Faults of calls and replies affect script calls only (`EVAL`,
/// `EVALSHA`, `FCALL`), so clients can still connect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// No fault.
    Pass,
    /// Every reply is delayed.
    Delay(Duration),
    /// Connections are accepted, but nothing is read, sent or closed. Commands sent meanwhile proceed afterwards.
    BlackHole,
    /// The port is closed, and connections are reset.
    Refuse,
    /// Commands of a connection reach Redis only afterwards, from the first one that contains these bytes on.
    HoldCommands(&'static [u8]),
    /// The call reaches Redis. Its reply and later ones are held until the fault changes.
    HoldReplies,
    /// The call reaches Redis. Half of its reply is sent, and the connection closes.
    Cut,
    /// The call reaches Redis. These bytes replace its reply.
    Replace(Cow<'static, [u8]>),
    /// The call does not reach Redis. These bytes are the reply.
    Reply(Cow<'static, [u8]>),
}

/// Error replies of Redis to script calls.
pub const ERRORS: [&str; 12] = [
    "LOADING Redis is loading the dataset in memory",
    "READONLY You can't write against a read only replica.",
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that \
     may modify the data set are disabled, because this instance is configured to report errors during writes if RDB \
     snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
     error.",
    "NOREPLICAS Not enough good replicas to write.",
    "CLUSTERDOWN The cluster is down",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "NOSCRIPT No matching script. Please use EVAL.",
    "NOPERM this user has no permissions to run the 'evalsha' command",
    "ERR max number of clients reached",
];

impl Fault {
    /// Scripts do not run and fail with an error, such as one of [`ERRORS`].
    pub fn error(text: &str) -> Self {
        Self::Reply(format!("-{text}\r\n").into_bytes().into())
    }

    /// Scripts run, and the reply is not valid RESP.
    pub fn garbage() -> Self {
        Self::Replace(b"HTTP/1.1 400 Bad Request\r\n\r\n".into())
    }

    /// Scripts run, and the reply has an unexpected type.
    pub fn wrong_type() -> Self {
        Self::Replace(b"+OK\r\n".into())
    }

    /// Scripts run, and the reply is the beginning of a string of 100 GB.
    pub fn huge_text() -> Self {
        Self::Replace(b"$99999999999\r\nx".into())
    }

    /// Scripts run, and the reply is the beginning of a list of a billion items.
    pub fn huge_list() -> Self {
        Self::Replace(b"*1000000000\r\n:1\r\n".into())
    }

    /// Returns true if connections stay open under the fault.
    pub(super) fn is_refusal(&self) -> bool {
        *self == Self::Refuse
    }

    /// Returns the treatment of a command.
    pub(super) fn on(&self, command: &[u8], is_script: bool) -> Effect {
        match self {
            Self::Pass | Self::BlackHole | Self::Refuse => Effect::None,
            Self::Delay(by) => Effect::Delay(*by),
            Self::HoldCommands(text) if command.windows(text.len()).any(|window| window == *text) => {
                Effect::HoldCommand
            }
            _ if !is_script => Effect::None,
            Self::HoldCommands(_) => Effect::None,
            Self::HoldReplies => Effect::HoldReply,
            Self::Cut => Effect::Cut,
            Self::Replace(bytes) => Effect::Replace(bytes.clone()),
            Self::Reply(bytes) => Effect::Reply(bytes.clone()),
        }
    }
}

/// Treatment of a command and its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Delay(Duration),
    HoldCommand,
    HoldReply,
    Cut,
    Replace(Cow<'static, [u8]>),
    Reply(Cow<'static, [u8]>),
}
