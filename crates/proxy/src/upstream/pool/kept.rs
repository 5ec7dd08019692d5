//! Connections that a pool keeps between requests: their release, their age and their addresses.

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::upstream::pool::Pool;
use crate::upstream::pool::connection::{Connection, Sender};

impl Pool {
    /// Advances the clock by one second and closes connections that were idle for too long, or whose address is gone. If
    /// connections are kept, looks up the name `renew_secs` after the latest lookup.
    pub fn tick(&self, renew_secs: u64) {
        let now = self.now_secs.get() + 1;
        self.now_secs.set(now);
        let settings = self.settings.borrow();
        let oldest = (now + 1).saturating_sub(settings.max_life_secs);
        let has_lost = self.names.take_lost();
        if has_lost {
            self.http2.retire(|peer| self.names.has_left(peer));
        }
        self.checked_before_secs.update(|before| if has_lost { now + 1 } else { before.max(oldest) });
        self.http2.close_idle(now, settings.max_idle_secs);
        self.idle.borrow_mut().retain(|idle| {
            now - idle.idle_since_secs <= settings.max_idle_secs
                && !self.is_outdated(idle, settings.max_life_secs)
                && !idle.is_closed()
        });
        self.names.renew(renew_secs);
    }

    /// Returns true if an HTTP/1.1 connection takes no further request: it is too old, or its address is gone.
    fn is_outdated(&self, connection: &Connection, max_life_secs: u64) -> bool {
        self.now_secs.get() - connection.since_secs >= max_life_secs
            || connection.peer.as_ref().is_some_and(|peer| self.names.has_left(peer))
    }

    /// Applies a changed connection limit.
    pub(in crate::upstream) fn resize(&self) {
        let limit = self.settings.borrow().max_connections.map(usize::from);
        let mut slots = self.slots.borrow_mut();
        if slots.as_ref().map(|(current, _)| *current) != limit {
            // Connections in use hold permits of the old limit until they are released.
            *slots = limit.map(|limit| (limit, Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)))));
        }
    }

    /// Takes back a connection after its response has been read to the end.
    pub(in crate::upstream) fn release(&self, mut connection: Box<Connection>) {
        let Sender::Http1(http1) = &mut connection.sender else { return };
        http1.finish();
        let settings = self.settings.borrow();
        let now_secs = self.now_secs.get();
        let mut idle = self.idle.borrow_mut();
        let is_suspect = connection.since_secs < self.checked_before_secs.get();
        if (is_suspect && self.is_outdated(&connection, settings.max_life_secs))
            || connection.is_closed()
            || idle.len() >= settings.max_idle
        {
            return;
        }
        connection.deadline.clear();
        connection.idle_since_secs = now_secs;
        let permit = connection.permit.take();
        idle.push_back(connection);
        // The permit goes last: the request that waits for it finds the connection.
        drop((idle, permit));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::rc::Rc;
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;
    use crate::upstream::origin::Origin;
    use tollgate_config::{Http2, Scheme};

    /// Runs `test` with the pool of a server that accepts connections at a name.
    fn with_pool<F: Future<Output = ()>>(http2: Http2, test: impl FnOnce(Rc<Pool>) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let serving = async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let accept = async {
                let mut open = Vec::new();
                loop {
                    open.push(listener.accept().await.unwrap());
                }
            };
            let origin = Origin::new(Scheme::Http, "localhost", port, &Arc::default(), http2);
            tokio::select! {
                () = test(Pool::new(origin, Rc::default())) => {}
                () = accept => {}
            }
        };
        LocalSet::new().block_on(&runtime, serving);
    }

    async fn connect(pool: &Rc<Pool>) -> Box<Connection> {
        pool.connect(Duration::from_secs(5), false).await.unwrap()
    }

    /// Lets the name have another address, as after a failover.
    fn move_name(pool: &Pool) {
        pool.names.learn("localhost", pool.origin().port, &["192.0.2.1:1".parse().unwrap()]);
    }

    #[test]
    fn connections_to_an_address_that_left_the_name_take_no_further_request() {
        with_pool(Http2::Off, |pool| async move {
            let (idle, busy) = (connect(&pool).await, connect(&pool).await);
            pool.release(idle);
            pool.tick(1000);
            assert!(pool.has_connections(), "the address is one of the name");
            move_name(&pool);
            pool.tick(1000);
            assert!(!pool.has_connections(), "an idle connection");
            pool.release(busy);
            assert!(!pool.has_connections(), "one in use at that time");
        });
        with_pool(Http2::PriorKnowledge, |pool| async move {
            let stream = connect(&pool).await;
            pool.tick(1000);
            assert!(pool.take_idle(false).is_some());
            move_name(&pool);
            pool.tick(1000);
            assert!(pool.take_idle(false).is_none(), "HTTP/2");
            assert!(stream.is_ready(), "open streams go on");
        });
    }

    #[test]
    fn a_name_is_looked_up_again_while_connections_to_it_are_in_use() {
        with_pool(Http2::Off, |pool| async move {
            let connection = connect(&pool).await;
            move_name(&pool);
            // The lookup finds the addresses of `localhost`, so that the connection stays.
            for _ in 0..5 {
                assert!(pool.names.has_left(connection.peer.as_ref().unwrap()));
                pool.tick(5);
            }
            while pool.names.has_left(connection.peer.as_ref().unwrap()) {
                tokio::task::yield_now().await;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            drop(connection);
            (0..20).for_each(|_| pool.tick(5));
            assert_eq!(Rc::strong_count(&pool.names), 1, "no lookup runs without connections");
        });
    }
}
