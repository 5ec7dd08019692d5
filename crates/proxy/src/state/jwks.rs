//! Task that refreshes the keys for token verification (JWKS).
//!
//! The key set is read again every `jwt.refresh`, on a reload, and when a token names an unknown key. Since clients can
//! invent key names, reads for unknown keys are at least 30 seconds apart. Only one read runs at a time. If a read
//! fails, the current keys stay in use.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{Request, Uri};
use thiserror::Error;
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tollgate_bounded_file::MAX_KEY_SET_BYTES;
use tollgate_filters::jwt::{KeySet, KeySetError};

use tollgate_config::{Jwt, KeySource};
use tollgate_transport::error_chain;
use tollgate_transport::executor::spawn_boxed;
use tollgate_transport::small_client::{Bounds, CallError, call, system_tls};

/// Least interval between two reads for unknown keys.
const UNKNOWN_KEY_INTERVAL: Duration = Duration::from_secs(30);
/// Delay before the first retry after a failure. It doubles with each further failure …
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// … up to this delay.
const LAST_RETRY: Duration = Duration::from_secs(30);
/// Timeout for a fetch, from the DNS lookup to the last byte.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time that an unresponsive server may delay a start or a reload.
const FIRST_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Refreshes the keys of the running configuration.
#[derive(Debug, Default)]
pub struct JwksRefresher {
    running: Option<(Jwt, JoinHandle<()>)>,
}

/// Error of a refresh.
#[derive(Debug, Error)]
enum RefreshError {
    #[error("cannot read the file")]
    File(#[from] std::io::Error),
    #[error("cannot fetch the key set")]
    Fetch(#[from] CallError),
    #[error("cannot use the key set")]
    Unusable(#[from] KeySetError),
    #[error("no key of the set fits `jwt.algorithms`")]
    NoKeyFits,
}

impl JwksRefresher {
    /// Refreshes the keys of `jwt` from now on, and no others, within the calling runtime. If the previous
    /// configuration had the same source, its keys serve until the first read. Without keys, waits for the first read,
    /// one second at most, so that tokens are not refused at the start.
    pub async fn apply(&mut self, jwt: Option<&Jwt>) {
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
        let task = spawn_boxed(refresh(jwt.clone(), attempted));
        self.running = Some((jwt.clone(), task));
        if is_empty {
            let _ = timeout(FIRST_ATTEMPT_TIMEOUT, first).await;
        }
    }
}

/// Reads the keys repeatedly. Signals `attempted` after the first read.
async fn refresh(jwt: Jwt, attempted: oneshot::Sender<()>) {
    let mut attempted = Some(attempted);
    let mut requested_at = None;
    let mut failures = 0;
    let mut pause = match &jwt.keys {
        // The configuration loader has just read the file.
        KeySource::File(_) => jwt.refresh,
        KeySource::Server(_) => Duration::ZERO,
    };
    loop {
        tokio::select! {
            () = sleep(pause) => {}
            () = unknown_key(&jwt.wanted, requested_at) => requested_at = Some(Instant::now()),
        }
        match read(&jwt).await {
            Ok(keys) => {
                replace_keys(&jwt, keys);
                failures = 0;
                pause = jwt.refresh;
            }
            Err(error) => {
                let reason = std::error::Error::source(&error).map(error_chain);
                let keys = jwt.verifier.keys().len();
                tracing::error!(jwks = %jwt.keys, %error, reason, keys, "jwks refresh failed, current keys stay in use");
                pause = retry_after(failures).min(jwt.refresh);
                failures += 1;
            }
        }
        if let Some(attempted) = attempted.take() {
            let _ = attempted.send(());
        }
    }
}

/// Waits until a token names an unknown key, at least [`UNKNOWN_KEY_INTERVAL`] after `last`.
async fn unknown_key(wanted: &Notify, last: Option<Instant>) {
    if let Some(last) = last {
        sleep_until(last + UNKNOWN_KEY_INTERVAL).await;
    }
    wanted.notified().await;
}

fn retry_after(failures: u32) -> Duration {
    FIRST_RETRY.saturating_mul(1 << failures.min(8)).min(LAST_RETRY)
}

async fn read(jwt: &Jwt) -> Result<KeySet, RefreshError> {
    let text = match &jwt.keys {
        KeySource::Server(uri) => fetch(uri).await?,
        KeySource::File(path) => {
            let path = path.clone();
            let read = spawn_blocking(move || tollgate_bounded_file::read(&path, MAX_KEY_SET_BYTES)).await;
            read.map_err(std::io::Error::other)??.into()
        }
    };
    let keys = KeySet::parse(&text)?;
    if keys.supports_any(&jwt.verifier.settings().algorithms) { Ok(keys) } else { Err(RefreshError::NoKeyFits) }
}

fn replace_keys(jwt: &Jwt, keys: KeySet) {
    let keys = Arc::new(keys);
    if jwt.verifier.replace_keys(Arc::clone(&keys)) {
        tracing::info!(jwks = %jwt.keys, keys = keys.len(), "jwks refreshed");
        for reason in keys.unusable() {
            tracing::warn!(jwks = %jwt.keys, %reason, "unusable key ignored");
        }
    }
}

/// Returns the key set at `uri`. The trusted CA certificates are read each time: they change, and fetches are rare.
async fn fetch(uri: &Uri) -> Result<Bytes, CallError> {
    let request = Request::get("/").header(ACCEPT, "application/jwk-set+json, application/json");
    let bounds = Bounds { timeout: FETCH_TIMEOUT, max_bytes: MAX_KEY_SET_BYTES };
    call(uri, request, Bytes::new(), system_tls, bounds).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retry_delay_doubles_up_to_30_seconds() {
        let pauses: Vec<u64> = (0..8).map(|failures| retry_after(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(retry_after(u32::MAX), LAST_RETRY);
    }
}
