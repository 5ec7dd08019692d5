//! What may go wrong between a client and Redis.

use std::borrow::Cow;
use std::time::Duration;

/// What is wrong. It strikes commands that arrive while it is set, and those about scripts and replies strike calls of
/// scripts only (`EVAL`, `EVALSHA`, `FCALL`), so that clients still connect.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing.
    Pass,
    /// Every reply, of any command, comes so much later.
    Delay(Duration),
    /// Connections are accepted, and nothing is read, sent or closed. What was sent meanwhile goes on afterwards.
    BlackHole,
    /// Nobody listens, and connections are reset.
    Refuse,
    /// Commands from the first one on in which these bytes occur, on that connection, reach Redis afterwards only.
    HoldCommands(&'static [u8]),
    /// The call reaches Redis. Its reply, and those behind it, come once another fault, or none, is set.
    HoldReplies,
    /// The call reaches Redis. Half of its reply comes, and the connection closes.
    Cut,
    /// The call reaches Redis. These bytes come in place of its reply.
    Replace(Cow<'static, [u8]>),
    /// The call does not reach Redis. These bytes come as though they were its reply.
    Answer(Cow<'static, [u8]>),
}

/// Errors with which Redis answers calls of scripts, as it words them.
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
    /// Scripts are answered with an error, such as one of [`ERRORS`], and do not run.
    pub fn error(text: &str) -> Self {
        Self::Answer(format!("-{text}\r\n").into_bytes().into())
    }

    /// Scripts run, and something that is no reply at all comes back.
    pub fn garbage() -> Self {
        Self::Replace(b"HTTP/1.1 400 Bad Request\r\n\r\n".into())
    }

    /// Scripts run, and a reply that no script of ours gives comes back.
    pub fn wrong_type() -> Self {
        Self::Replace(b"+OK\r\n".into())
    }

    /// Scripts run, and the beginning of a text of 100 GB comes back.
    pub fn huge_text() -> Self {
        Self::Replace(b"$99999999999\r\nx".into())
    }

    /// Scripts run, and the beginning of a list of a billion items comes back.
    pub fn huge_list() -> Self {
        Self::Replace(b"*1000000000\r\n:1\r\n".into())
    }

    /// Whether connections live with it.
    pub(super) fn is_refusal(&self) -> bool {
        *self == Self::Refuse
    }

    /// What it does to this command.
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
            Self::Answer(bytes) => Effect::Answer(bytes.clone()),
        }
    }
}

/// What becomes of one command and its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Delay(Duration),
    HoldCommand,
    HoldReply,
    Cut,
    Replace(Cow<'static, [u8]>),
    Answer(Cow<'static, [u8]>),
}
