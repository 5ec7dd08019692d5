//! One place for a connection, and how a connection is made.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use deadpool::managed;
use deadpool_redis::Manager;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{AsyncConnectionConfig, ConnectionInfo, PushInfo, PushKind, RedisError, Value};
use tokio::sync::Notify;

use super::error::StoreError;
use super::hot::CHANNEL;
use super::script::Script;

/// The longest time in which a connection must be made, login and script included.
pub(super) const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Calls in a row without an answer after which a connection is replaced: it may be half open, which no error tells.
const TIMEOUTS_TO_REPLACE: u32 = 3;

/// Calls that may queue for a connection.
const QUEUE: usize = 4096;

/// Bytes that are gathered into one write.
const WRITE_BYTES: usize = 64 * 1024;

/// A place for one connection. The supervisor fills it; whoever finds the connection broken empties it.
#[derive(Default)]
pub(super) struct Slot {
    live: Mutex<Option<Live>>,
    timeouts: AtomicU32,
    emptied: Notify,
}

/// A connection and its number, which tells it from the one that was here before.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    pub(super) number: u64,
}

// === impl Slot ===

impl Slot {
    /// The connection that is here, if one is. Clones of it share one socket.
    #[inline]
    pub(super) fn get(&self) -> Option<Live> {
        self.live.lock().clone()
    }

    pub(super) fn is_live(&self) -> bool {
        self.live.lock().is_some()
    }

    pub(super) fn fill(&self, live: Live) {
        self.timeouts.store(0, Ordering::Relaxed);
        *self.live.lock() = Some(live);
    }

    /// Takes connection `number` away if it is still here, and wakes the supervisor. Returns whether it was.
    pub(super) fn drop_connection(&self, number: u64) -> bool {
        let mut live = self.live.lock();
        let was_here = live.as_ref().is_some_and(|live| live.number == number);
        if was_here {
            *live = None;
            self.emptied.notify_one();
        }
        was_here
    }

    /// Waits until the connection is gone.
    pub(super) async fn emptied(&self) {
        while self.is_live() {
            self.emptied.notified().await;
        }
    }

    #[inline]
    pub(super) fn answered(&self) {
        if self.timeouts.load(Ordering::Relaxed) != 0 {
            self.timeouts.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a call that connection `number` did not answer in time; returns whether there were too many in a row.
    /// What was sent over a connection before says nothing of the present one.
    pub(super) fn timed_out(&self, number: u64) -> bool {
        let is_present = self.live.lock().as_ref().is_some_and(|live| live.number == number);
        is_present && self.timeouts.fetch_add(1, Ordering::Relaxed) + 1 >= TIMEOUTS_TO_REPLACE
    }
}

/// What a connection tells unasked.
pub(super) enum News<'n> {
    /// It closed.
    Lost,
    /// Something was given back to the key of that name.
    Returned(&'n [u8]),
}

impl<'n> News<'n> {
    fn of(push: &'n PushInfo) -> Option<Self> {
        match (&push.kind, push.data.as_slice()) {
            (PushKind::Disconnection, _) => Some(Self::Lost),
            (PushKind::Message, [_, Value::BulkString(key)]) => Some(Self::Returned(key)),
            _ => None,
        }
    }
}

/// Connects, logs in and loads the scripts for one rule; those for several are loaded when they are first asked for.
/// `on_news` is called with what the connection tells later (RESP3 only). Also returns whether the server runs
/// scripts: one that does not is of use still, to those who need none.
pub(super) async fn connect(
    info: &ConnectionInfo,
    on_news: impl Fn(News<'_>) + Send + Sync + 'static,
) -> Result<(MultiplexedConnection, bool), RedisError> {
    let tcp = TcpSettings::default()
        // One small write a call: waiting to fill a packet would cost up to 40 ms.
        .set_nodelay(true)
        .set_keepalive(TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5)));
    #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
    let tcp = tcp.set_user_timeout(Duration::from_secs(2));

    // Calls have deadlines of their own, which cover queueing too.
    let mut config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT_WITHIN))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(QUEUE)
        .set_write_backpressure_boundary(WRITE_BYTES);
    let listens = info.redis_settings().protocol() != redis::ProtocolVersion::RESP2;
    if listens {
        config = config.set_push_sender(move |push: PushInfo| {
            if let Some(news) = News::of(&push) {
                on_news(news);
            }
            Ok::<(), std::convert::Infallible>(())
        });
    }
    // Of the pool only its connection factory is used: a checkout would cost each decision a PING.
    let manager = Manager::new_with_config(info.clone().set_tcp_settings(tcp), config)?;
    let mut connection = managed::Manager::create(&manager).await?;
    if listens && let Err(error) = connection.subscribe(CHANNEL).await {
        // What others give back is noticed later then.
        tracing::debug!(redis = %info.addr(), %error, "cannot listen to `{CHANNEL}`");
    }
    let mut load = redis::pipe();
    for script in Script::all_single() {
        load.add_command(script.load());
    }
    for reply in connection.send_packed_commands(&load, 0, load.len()).await? {
        match reply.extract_error() {
            Err(error) if StoreError::of(&error) == StoreError::NoScripts => return Ok((connection, false)),
            reply => reply?,
        };
    }
    Ok((connection, true))
}
