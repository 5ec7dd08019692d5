//! Sending of one command, with commands that must precede it in the same write.

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};

use crate::store::redis::error::StoreError;
use crate::store::redis::script::Script;
use crate::store::redis::stats::Counter;

/// Time in milliseconds for which an empty string stands for a missing key. Longer than a call may take.
const PLACEHOLDER_TTL_MS: u64 = 2_000;

/// Form in which a script call is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ScriptForm {
    /// `EVALSHA`.
    #[default]
    Hash,
    /// `EVAL`, which also loads the script. It needs no other command: proxies and some servers have no `SCRIPT`.
    Text,
    /// `EVALSHA` behind `SCRIPT LOAD`, where `EVAL` is refused: users may have the permission for `script|load` only.
    Loaded,
}

impl ScriptForm {
    /// Form in which a call is repeated after `error`: nothing has run. `None`: it is not repeated.
    pub(crate) fn after(self, error: &RedisError) -> Option<Self> {
        // An error within the script, such as a permission that it lacks, is none of `EVAL`: it may have run in part.
        let is_eval_refused = || match error.kind() {
            ErrorKind::Server(ServerErrorKind::NoPerm) => error.detail().is_some_and(|text| text.contains("'eval'")),
            _ => StoreError::classify(error) == StoreError::NoScripts,
        };
        match self {
            Self::Hash if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => Some(Self::Text),
            Self::Text if is_eval_refused() => Some(Self::Loaded),
            _ => None,
        }
    }
}

/// Sends `cmd` over `connection`. If it is an `EVALSHA` of a `script` that the node does not know, sends the script too.
pub(crate) async fn send_script(
    connection: &mut MultiplexedConnection,
    misses: &Counter,
    script: Option<&Script>,
    cmd: &Cmd,
    asking: bool,
) -> Result<Value, RedisError> {
    let mut reply = send(connection, None, cmd, asking).await;
    let (Some(script), mut form) = (script, ScriptForm::Hash) else { return reply };
    while let Err(error) = &reply
        && let Some(next) = form.after(error)
    {
        form = next;
        reply = match form {
            ScriptForm::Loaded => send(connection, Some(script.load()), cmd, asking).await,
            _ => {
                misses.increment();
                send(connection, None, &script.eval(cmd), asking).await
            }
        };
    }
    reply
}

/// Sends `cmd` behind `before` in one write. `asking` adds `ASKING` to the same write: the connection is shared, and
/// `ASKING` applies to the next command on it.
async fn send(
    connection: &mut MultiplexedConnection,
    before: Option<Cmd>,
    cmd: &Cmd,
    asking: bool,
) -> Result<Value, RedisError> {
    if before.is_none() && !asking {
        return connection.send_packed_command(cmd).await.and_then(top_level_error);
    }
    let mut pipeline = Pipeline::with_capacity(3);
    for cmd in before.into_iter().chain(asking.then(|| redis::cmd("ASKING"))) {
        pipeline.add_command(cmd);
    }
    pipeline.add_command(cmd.clone());
    // Boxed, since few calls need it: the future of the others is copied into a task.
    let replies = Box::pin(connection.send_packed_commands(&pipeline, 0, pipeline.len())).await?;
    replies.into_iter().try_fold(Value::Nil, |_, reply| top_level_error(reply))
}

/// Turns an error reply into an error. Nested errors belong to single calls of a batch.
fn top_level_error(reply: Value) -> Result<Value, RedisError> {
    match reply {
        Value::ServerError(error) => Err(error.into()),
        reply => Ok(reply),
    }
}

/// Creates the missing keys of `cmd`, an `EVALSHA`, as empty strings on a node that imports their slot.
///
/// Such a node runs no command with several keys unless it has all of them. So a new bucket with two keys could not be
/// created while its slot migrates. The exporting node has replied that it has none of them, and creates none.
pub(crate) async fn create_missing_keys(connection: &mut MultiplexedConnection, cmd: &Cmd) -> Result<(), RedisError> {
    let args: Vec<&[u8]> = cmd
        .args_iter()
        .filter_map(|arg| match arg {
            Arg::Simple(arg) => Some(arg),
            _ => None,
        })
        .collect();
    let count = args.get(2).and_then(|count| std::str::from_utf8(count).ok()?.parse().ok());
    let mut pipeline = redis::pipe();
    for key in args.into_iter().skip(3).take(count.unwrap_or_default()) {
        pipeline.add_command(redis::cmd("ASKING"));
        pipeline.cmd("SET").arg(key).arg("").arg("NX").arg("PX").arg(PLACEHOLDER_TTL_MS);
    }
    // The call is sent again and shows which of these failed.
    connection.send_packed_commands(&pipeline, 0, pipeline.len()).await.map(drop)
}
