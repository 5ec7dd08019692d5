//! Keeps the keys that tokens are verified with up to date: state that outlives every configuration.
//!
//! A key set is read again every `jwt.refresh`, on a reload, and when a token names a key that it lacks: at once, but
//! then not for another half minute, since anybody can make up a name. One read is under way at a time. What cannot be
//! read or used changes nothing: the keys at hand stay.

mod fetch;

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tollgate_filters::jwt::{KeySet, KeySetError};

use self::fetch::{FetchError, MOST_BYTES};
use tollgate_config::{Jwt, KeySource};

/// Reads for the sake of unknown keys are this far apart.
const ASKED_EVERY: Duration = Duration::from_secs(30);
/// After a failure it is tried again this soon, then half as often each time,
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// down to this.
const LAST_RETRY: Duration = Duration::from_secs(30);
/// How long a server that hangs may hold up a start or a reload.
const FIRST_ATTEMPT: Duration = Duration::from_secs(1);

/// Keeps the keys of the running configuration.
#[derive(Debug, Default)]
pub struct KeyKeeper {
    running: Option<(Jwt, JoinHandle<()>)>,
}

/// Why there are no new keys.
#[derive(Debug, Error)]
enum KeysError {
    #[error("cannot read it")]
    File(#[from] std::io::Error),
    #[error("it has more than {MOST_BYTES} bytes")]
    TooLong,
    #[error("cannot fetch it")]
    Fetch(#[from] FetchError),
    #[error("cannot use it")]
    Unusable(#[from] KeySetError),
    #[error("no key of it is made for one of `jwt.algorithms`")]
    NoneFits,
}

impl KeyKeeper {
    /// Takes care of the keys of `jwt` from now on, within the calling runtime. Keys that the same source gave the last
    /// configuration serve this one from the start. Waits until the first attempt to fetch keys has ended where there are
    /// none, a second at most, so that nobody is refused for want of keys that are on their way.
    pub async fn take_over(&mut self, jwt: Option<&Jwt>) {
        let last = self.running.take().map(|(last, task)| {
            task.abort();
            last
        });
        let Some(jwt) = jwt else { return };
        if let Some(last) = last
            && last.keys == jwt.keys
            && jwt.verifier.keys().is_empty()
        {
            jwt.verifier.replace_keys(last.verifier.keys());
        }
        let is_empty = jwt.verifier.keys().is_empty();
        let (attempted, first) = oneshot::channel();
        let task = spawn_local(keep(jwt.clone(), attempted));
        self.running = Some((jwt.clone(), task));
        if is_empty {
            let _ = timeout(FIRST_ATTEMPT, first).await;
        }
    }
}

/// Reads the keys again and again; tells `attempted` after the first time.
async fn keep(jwt: Jwt, attempted: oneshot::Sender<()>) {
    let mut attempted = Some(attempted);
    let mut asked = None;
    let mut failures = 0;
    let mut pause = match &jwt.keys {
        // Read a moment ago, with the configuration.
        KeySource::File(_) => jwt.refresh,
        KeySource::Server(_) => Duration::ZERO,
    };
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            () = wanted(&jwt.wanted, asked) => asked = Some(Instant::now()),
        }
        match read(&jwt).await {
            Ok(keys) => {
                take(&jwt, keys);
                failures = 0;
                pause = jwt.refresh;
            }
            Err(error) => {
                let reason = std::error::Error::source(&error).map(chain);
                let stay = jwt.verifier.keys().len();
                tracing::error!(jwks = %jwt.keys, %error, reason, stay, "no new keys for tokens; those at hand stay");
                pause = retry_after(failures).min(jwt.refresh);
                failures += 1;
            }
        }
        if let Some(attempted) = attempted.take() {
            let _ = attempted.send(());
        }
    }
}

/// Ends when somebody asks for a key that is not there, at the earliest [`ASKED_EVERY`] after the last time.
async fn wanted(wanted: &Notify, last: Option<Instant>) {
    if let Some(last) = last {
        sleep_until(last + ASKED_EVERY).await;
    }
    wanted.notified().await;
}

fn retry_after(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.min(8)).min(LAST_RETRY)
}

async fn read(jwt: &Jwt) -> Result<KeySet, KeysError> {
    let text = match &jwt.keys {
        KeySource::Server(uri) => fetch::fetch(uri).await?,
        KeySource::File(path) => {
            let path = path.clone();
            let text = spawn_blocking(move || std::fs::read(path)).await.map_err(std::io::Error::other)??;
            text.into()
        }
    };
    if text.len() > MOST_BYTES {
        return Err(KeysError::TooLong);
    }
    let keys = KeySet::parse(&text)?;
    if keys.supports_any(&jwt.verifier.settings().algorithms) { Ok(keys) } else { Err(KeysError::NoneFits) }
}

fn take(jwt: &Jwt, keys: KeySet) {
    let keys = Arc::new(keys);
    if jwt.verifier.replace_keys(Arc::clone(&keys)) {
        tracing::info!(jwks = %jwt.keys, keys = keys.len(), "new keys for tokens");
        for reason in keys.unusable() {
            tracing::warn!(jwks = %jwt.keys, "{reason}; it is left out");
        }
    }
}

/// An error and what is behind it, on one line.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_come_half_as_often_each_time_down_to_every_half_minute() {
        let pauses: Vec<u64> = (0..8).map(|failures| retry_after(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(retry_after(u32::MAX), LAST_RETRY);
    }
}
