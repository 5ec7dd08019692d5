//! Which server Sentinels call the primary.
//!
//! One task a client asks all Sentinels: once a second, five times a second while there is no connection, and at once
//! when a connection was lost. Asking notices a new primary as soon as any Sentinel that can be reached knows of it,
//! where a subscription would stay silent for as long as its own Sentinel is cut off with the old one. So an old primary
//! that still takes writes is left within [`WATCH_EVERY`] and the time of two answers (1.6 s at most with the default
//! timeout); where the gateway can reach only Sentinels that do not know better, `min-replicas-to-write` is what stops it.
//!
//! No answer of a Sentinel is taken for granted: [`candidates`] says in which order servers are tried, and who does not
//! say that it is a primary (`ROLE`) is not used. Without Sentinels the primary that was in use stays in use.
//!
//! Only the Sentinels of the settings are asked: what they say of others need not be reachable from here.

mod candidates;
mod sentinel;

use std::sync::Arc;
use std::time::Duration;

use redis::RedisError;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::candidates::{Named, candidates};
use self::sentinel::SentinelLink;
use super::connect::{CONNECT_WITHIN, check_primary, config, open};
use super::dial::Dial;
use super::error::StoreError;
use super::node::Node;
use super::settings::{HostPort, RedisSettings, RedisSettingsError, Sentinel};
use super::shared::Shared;
use super::supervisor::{describe, jittered};

/// How often Sentinels are asked while all is well, and while it is not.
const WATCH_EVERY: Duration = Duration::from_secs(1);
const SEARCH_EVERY: Duration = Duration::from_millis(200);

/// How long a Sentinel, or a server that one named, may take to answer; as long as decisions if those may take longer,
/// but a second at most.
const PATIENCE: Duration = Duration::from_millis(300);

/// The primary, wherever it is.
pub(super) struct Primary {
    master: String,
    sentinels: Vec<HostPort>,
    dial: Dial,
    patience: Duration,
    found: watch::Sender<Option<Named>>,
    doubted: Notify,
}

/// What went wrong, in the words of whoever said so.
type Reason = (StoreError, String);

impl Primary {
    pub(super) fn new(settings: &RedisSettings, sentinel: &Sentinel) -> Result<Arc<Self>, RedisSettingsError> {
        if sentinel.nodes.is_empty() || sentinel.master.is_empty() {
            let text = "`redis.sentinel` needs the name of a `master` and `nodes` to ask for it";
            return Err(RedisSettingsError::Unusable(text.into()));
        }
        Ok(Arc::new(Self {
            master: sentinel.master.clone(),
            sentinels: sentinel.nodes.clone(),
            dial: Dial::to_sentinels(settings, sentinel),
            patience: settings.timeout.clamp(PATIENCE, CONNECT_WITHIN),
            found: watch::Sender::new(None),
            doubted: Notify::new(),
        }))
    }

    /// Where it is, once that is known.
    pub(super) fn place(&self) -> Option<HostPort> {
        self.found.borrow().as_ref().map(|named| named.server.clone())
    }

    /// Tells of changes of the place.
    pub(super) fn moves(&self) -> Moves {
        Moves(self.found.subscribe())
    }

    /// Has the Sentinels asked at once.
    pub(super) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// Keeps an eye on where it is, for `node`.
    pub(super) async fn watch(self: Arc<Self>, shared: Arc<Shared>, node: Arc<Node>) {
        let mut links: Vec<_> = self.sentinels.iter().map(|at| SentinelLink::new(at.clone())).collect();
        loop {
            let (answers, reasons) = self.ask(&mut links).await;
            let in_use = node.live_connections() > 0;
            if let Err((kind, reason)) = self.look(&shared.dial, &answers, reasons, in_use).await
                && !in_use
            {
                shared.not_connected(&node, kind, &reason);
            }
            let pause = if in_use { WATCH_EVERY } else { SEARCH_EVERY };
            let _ = timeout(jittered(pause), self.doubted.notified()).await;
        }
    }

    /// Asks all Sentinels at one time.
    async fn ask(self: &Arc<Self>, links: &mut Vec<SentinelLink>) -> (Vec<Named>, Vec<Reason>) {
        let mut asking = JoinSet::new();
        for mut link in links.drain(..) {
            let primary = Arc::clone(self);
            asking.spawn(async move {
                let answer = timeout(primary.patience, link.ask(&primary.dial, &primary.master)).await;
                if !matches!(answer, Ok(Ok(_))) {
                    link.forget();
                }
                (link, answer)
            });
        }
        let (mut answers, mut reasons) = (Vec::new(), Vec::new());
        while let Some(Ok((link, answer))) = asking.join_next().await {
            match answer {
                Ok(Ok(named)) => answers.push(named),
                Ok(Err(error)) => reasons.push(reason("sentinel", &link.at, &error)),
                Err(_) => reasons.push((StoreError::Timeout, format!("sentinel {} does not answer", link.at))),
            }
            links.push(link);
        }
        (answers, reasons)
    }

    /// Finds out whether the primary is where it was, and where it is if not. Whoever is `in_use` was asked for its role
    /// when it was connected to.
    async fn look(&self, dial: &Dial, answers: &[Named], mut reasons: Vec<Reason>, in_use: bool) -> Result<(), Reason> {
        let known = self.found.borrow().clone();
        for named in candidates(answers, self.sentinels.len(), known.as_ref()) {
            let stays = known.as_ref().is_some_and(|known| known.server == named.server);
            if !(stays && in_use)
                && let Err(reason) = self.confirm(dial, &named.server).await
            {
                reasons.insert(0, reason);
                continue;
            }
            if !stays {
                tracing::info!(redis = self.master, server = %named.server, "the primary is there");
            }
            self.found.send_if_modified(|found| {
                *found = Some(named);
                !stays
            });
            return Ok(());
        }
        // Somebody who answers says more than somebody who does not.
        reasons.sort_by_key(|(kind, _)| matches!(kind, StoreError::Timeout | StoreError::Disconnected));
        Err(reasons.into_iter().next().unwrap_or((StoreError::Disconnected, "no sentinel answers".into())))
    }

    async fn confirm(&self, dial: &Dial, server: &HostPort) -> Result<(), Reason> {
        let asked = async {
            let mut connection = open(&dial.to(server)?, config()).await?;
            check_primary(&mut connection).await
        };
        match timeout(self.patience, asked).await {
            Ok(role) => role.map_err(|error| reason("server", server, &error)),
            Err(_) => Err((StoreError::Timeout, format!("server {server} does not answer"))),
        }
    }
}

fn reason(what: &str, at: &HostPort, error: &RedisError) -> Reason {
    (StoreError::of(error), format!("{what} {at}: {}", describe(error)))
}

/// Where the primary is, for one who wants to be there.
pub(super) struct Moves(watch::Receiver<Option<Named>>);

impl Moves {
    /// Waits until it is known where the primary is.
    pub(super) async fn place(&mut self) -> HostPort {
        match self.0.wait_for(Option::is_some).await.ok().and_then(|found| found.clone()) {
            Some(named) => named.server,
            None => std::future::pending().await,
        }
    }

    /// Waits until it is somewhere else than [`place`](Self::place) said last.
    pub(super) async fn moved(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether it is.
    pub(super) fn has_moved(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }
}
