//! Coalesced lookups of a host name, and its addresses.
//!
//! The system's resolver occupies a thread for each lookup until it completes. If the name servers of one name did not
//! respond, that name's lookups would soon occupy all threads and delay the lookups of every other name.
//!
//! Under steady traffic a pool opens no connection, and would use the first addresses of a name forever. So the lookup is
//! repeated while connections are kept. The resolver of the system applies the time to live; it does not report it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use tokio::sync::watch;

use tollgate_transport::executor::spawn_boxed;

/// Result of a lookup; `None` while it is running.
type LookupResult = Option<Result<Vec<SocketAddr>, (io::ErrorKind, String)>>;

/// Lookup that the requests of a pool share, with the addresses of the name that it connects to: the origin's or the proxy's.
#[derive(Debug, Default)]
pub(super) struct NameLookup {
    latest: RefCell<Option<(String, watch::Receiver<LookupResult>)>>,
    /// Name and port with their addresses by the latest successful lookup.
    known: RefCell<Option<KnownName>>,
    /// Seconds since the latest lookup began.
    age_secs: Cell<u64>,
    /// True if an address has gone since the latest [`take_lost`](Self::take_lost).
    has_lost: Cell<bool>,
    /// Shared with each connection to the name.
    in_use: Rc<()>,
}

/// Address of a name that a connection leads to.
#[derive(Debug)]
pub(super) struct Peer {
    address: SocketAddr,
    /// Shows that connections to the name are kept.
    _in_use: Rc<()>,
}

#[derive(Debug)]
struct KnownName {
    host: String,
    port: u16,
    addresses: Vec<SocketAddr>,
}

impl NameLookup {
    /// Returns the addresses of `host`, with `port`.
    ///
    /// # Errors
    /// Errors of the resolver.
    pub(super) async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.age_secs.set(0);
        let addresses = self.join(host, || resolve(host.to_owned(), port)).await?;
        self.learn(host, port, &addresses);
        Ok(addresses)
    }

    /// Looks up the name again, on a task of its own, if there are connections to it and the latest lookup began at least
    /// `interval_secs` ago. A failed lookup changes nothing. Called once a second.
    pub(super) fn renew(self: &Rc<Self>, interval_secs: u64) {
        self.age_secs.set(self.age_secs.get() + 1);
        if self.age_secs.get() < interval_secs || Rc::strong_count(&self.in_use) == 1 {
            return;
        }
        let Some((host, port)) = self.known.borrow().as_ref().map(|known| (known.host.clone(), known.port)) else {
            return;
        };
        let names = Rc::clone(self);
        spawn_boxed(async move {
            let _ = names.look_up(&host, port).await;
        });
    }

    /// Returns the peer of a connection to `address`.
    pub(super) fn peer(&self, address: SocketAddr) -> Peer {
        Peer { address, _in_use: Rc::clone(&self.in_use) }
    }

    /// Returns true if the address of `peer` no longer belongs to the name.
    pub(super) fn has_left(&self, peer: &Peer) -> bool {
        self.known.borrow().as_ref().is_some_and(|known| !known.addresses.contains(&peer.address))
    }

    /// Returns true once after addresses have gone.
    pub(super) fn take_lost(&self) -> bool {
        self.has_lost.take()
    }

    /// Stores the addresses of a name.
    pub(super) fn learn(&self, host: &str, port: u16, addresses: &[SocketAddr]) {
        if addresses.is_empty() {
            return;
        }
        let known = KnownName { host: host.to_owned(), port, addresses: addresses.to_vec() };
        let before = self.known.replace(Some(known));
        if before.is_some_and(|before| before.addresses.iter().any(|address| !addresses.contains(address))) {
            tracing::debug!(
                name = host,
                ?addresses,
                "addresses of an upstream changed; connections to others are closed"
            );
            self.has_lost.set(true);
        }
    }

    /// Returns the result of the running lookup of `host`, or of a new one. A lookup continues when all requests that
    /// waited for it are gone: the resolver cannot be cancelled, and the next request would start it again.
    async fn join<F>(&self, host: &str, look_up: impl FnOnce() -> F) -> io::Result<Vec<SocketAddr>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + 'static,
    {
        let mut result = self.running(host).unwrap_or_else(|| {
            let (sender, result) = watch::channel(None);
            let running = look_up();
            spawn_boxed(async move {
                sender.send_replace(Some(running.await.map_err(|error| (error.kind(), error.to_string()))));
            });
            self.latest.replace(Some((host.to_owned(), result.clone())));
            result
        });
        let result = result.wait_for(Option::is_some).await.ok().and_then(|result| (*result).clone());
        let result = result.unwrap_or_else(|| Err((io::ErrorKind::Interrupted, "the lookup was cancelled".to_owned())));
        result.map_err(|(kind, text)| io::Error::new(kind, text))
    }

    fn running(&self, host: &str) -> Option<watch::Receiver<LookupResult>> {
        let current = self.latest.borrow();
        let (_, result) = current.as_ref().filter(|(name, result)| name == host && result.borrow().is_none())?;
        // Its task may have been dropped without a result.
        result.has_changed().is_ok().then(|| result.clone())
    }
}

/// Asks the resolver of the system.
async fn resolve(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    #[cfg(test)]
    if let Some(resolved) = tests::NAMES.with_borrow(|names| names.get(&host).cloned()) {
        return resolved.map_err(io::Error::from);
    }
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::HashMap;
    use std::time::Duration;

    use tokio::task::LocalSet;
    use tokio::time::{sleep, timeout};

    use super::*;

    thread_local! {
        /// Names of a test in the place of the system's: their addresses, or the error of a lookup.
        pub(in crate::upstream::pool) static NAMES: RefCell<HashMap<String, Result<Vec<SocketAddr>, io::ErrorKind>>> =
            RefCell::default();
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_share_one_lookup() {
        let (names, lookups) = (NameLookup::default(), Rc::new(Cell::new(0)));
        let address = SocketAddr::from(([192, 0, 2, 1], 80));
        let slow = |result: io::Result<Vec<SocketAddr>>| {
            let lookups = Rc::clone(&lookups);
            move || {
                lookups.set(lookups.get() + 1);
                async move {
                    sleep(Duration::from_secs(30)).await;
                    result
                }
            }
        };
        let bad = || io::Error::new(io::ErrorKind::NotFound, "no such name");
        let both = async {
            // A retry after a timeout joins the running lookup.
            for _ in 0..10 {
                timeout(Duration::from_secs(1), names.join("a", slow(Err(bad())))).await.unwrap_err();
            }
            let (one, other) = tokio::join!(names.join("a", slow(Ok(vec![]))), names.join("a", slow(Ok(vec![]))));
            assert_eq!(one.unwrap_err().to_string(), "no such name");
            assert_eq!(other.unwrap_err().kind(), io::ErrorKind::NotFound);
            assert_eq!(lookups.get(), 1);
            // A finished lookup is not reused, and another name starts its own.
            assert_eq!(names.join("a", slow(Ok(vec![address]))).await.unwrap(), [address]);
            assert_eq!(names.join("b", slow(Ok(vec![]))).await.unwrap(), []);
            assert_eq!(lookups.get(), 3);
        };
        LocalSet::new().run_until(both).await;
    }
}
