//! Connection of a client, with its connection to Redis.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::fault::Effect;
use super::{Control, resp};

/// Three concurrent loops forward commands to Redis, read its replies, and send due replies to the client. The first loop
/// to end ends the connection.
pub(super) struct Connection {
    control: Arc<Control>,
    /// Treatment of outstanding replies, in order.
    owed: Mutex<VecDeque<(Effect, u64)>>,
    due: Mutex<VecDeque<Due>>,
    /// Number of outstanding replies not yet sent to the client.
    undelivered: AtomicUsize,
    owes: Notify,
    given: Notify,
    delivered: Notify,
    resets: watch::Receiver<u64>,
}

/// Bytes for the client.
struct Due {
    bytes: Vec<u8>,
    when: When,
}

enum When {
    At(Instant),
    /// After the next change of the fault.
    After(u64),
    /// Now, followed by the end of the connection.
    Last,
}

impl Connection {
    pub(super) fn new(control: Arc<Control>) -> Self {
        control.live.fetch_add(1, SeqCst);
        Self {
            resets: control.resets.subscribe(),
            control,
            owed: Mutex::default(),
            due: Mutex::default(),
            undelivered: AtomicUsize::new(0),
            owes: Notify::new(),
            given: Notify::new(),
            delivered: Notify::new(),
        }
    }

    pub(super) async fn serve(self, mut client: TcpStream) {
        let mut resets = self.resets.clone();
        let _ = client.set_nodelay(true);
        let reset = tokio::select! {
            () = self.pass(&mut client) => false,
            _ = resets.changed() => true,
        };
        if reset {
            let _ = client.set_zero_linger();
        }
    }

    async fn pass(&self, client: &mut TcpStream) {
        self.control.passable().await;
        let Ok(mut redis) = TcpStream::connect(self.control.target).await else { return };
        let _ = redis.set_nodelay(true);
        let (from_client, to_client) = client.split();
        let (from_redis, to_redis) = redis.split();
        tokio::select! {
            () = self.commands(from_client, to_redis) => {}
            () = self.replies(from_redis) => {}
            () = self.write(to_client) => {}
        }
    }

    async fn commands(&self, mut client: ReadHalf<'_>, mut redis: WriteHalf<'_>) {
        let mut bytes = Vec::new();
        loop {
            while let Some(length) = resp::command_len(&bytes) {
                let command: Vec<u8> = bytes.drain(..length).collect();
                let era = *self.control.era.borrow();
                let effect = self.control.strike(&command);
                if effect == Effect::HoldCommand {
                    self.control.after(era).await;
                }
                let reaches_redis = !matches!(effect, Effect::Reply(_));
                // Replies to these commands are pushes.
                if !resp::name(&command).ends_with("SUBSCRIBE") {
                    self.owed.lock().unwrap().push_back((effect, era));
                    self.owes.notify_one();
                }
                self.control.passable().await;
                if reaches_redis && redis.write_all(&command).await.is_err() {
                    return;
                }
            }
            if matches!(client.read_buf(&mut bytes).await, Ok(0) | Err(_)) {
                return;
            }
            self.control.passable().await;
        }
    }

    async fn replies(&self, mut redis: ReadHalf<'_>) {
        let mut bytes = Vec::new();
        loop {
            self.give_answers();
            if let Some(length) = resp::reply_len(&bytes) {
                let reply: Vec<u8> = bytes.drain(..length).collect();
                let owed = if reply[0] == b'>' { None } else { self.owed.lock().unwrap().pop_front() };
                let (effect, era) = owed.unwrap_or((Effect::None, 0));
                self.give(reply, effect, era);
                continue;
            }
            tokio::select! {
                read = redis.read_buf(&mut bytes) => if matches!(read, Ok(0) | Err(_)) {
                    self.all_delivered().await;
                    return;
                },
                () = self.owes.notified() => {}
            }
        }
    }

    /// Sends replies to commands that do not reach Redis, up to the next outstanding reply.
    fn give_answers(&self) {
        let mut owed = self.owed.lock().unwrap();
        while let Some((Effect::Reply(_), _)) = owed.front() {
            let Some((Effect::Reply(bytes), _)) = owed.pop_front() else { return };
            self.send(bytes.into_owned(), When::At(Instant::now()));
        }
    }

    fn give(&self, mut reply: Vec<u8>, effect: Effect, era: u64) {
        let now = Instant::now();
        let when = match effect {
            Effect::Delay(by) => When::At(now + by),
            Effect::HoldReply => When::After(era),
            Effect::Cut => {
                reply.truncate(reply.len().div_ceil(2));
                When::Last
            }
            Effect::Replace(bytes) => {
                reply = bytes.into_owned();
                When::At(now)
            }
            Effect::None | Effect::HoldCommand | Effect::Reply(_) => When::At(now),
        };
        self.send(reply, when);
    }

    fn send(&self, bytes: Vec<u8>, when: When) {
        self.undelivered.fetch_add(1, SeqCst);
        self.due.lock().unwrap().push_back(Due { bytes, when });
        self.given.notify_one();
    }

    /// Waits until all replies are sent to the client.
    async fn all_delivered(&self) {
        while self.undelivered.load(SeqCst) > 0 {
            self.delivered.notified().await;
        }
    }

    async fn write(&self, mut client: WriteHalf<'_>) {
        loop {
            let Some(Due { bytes, when }) = self.due.lock().unwrap().pop_front() else {
                self.given.notified().await;
                continue;
            };
            match when {
                When::At(moment) => sleep_until(moment).await,
                When::After(era) => self.control.after(era).await,
                When::Last => {}
            }
            self.control.passable().await;
            if client.write_all(&bytes).await.is_err() || matches!(when, When::Last) {
                return;
            }
            self.undelivered.fetch_sub(1, SeqCst);
            self.delivered.notify_one();
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.control.live.fetch_sub(1, SeqCst);
    }
}
