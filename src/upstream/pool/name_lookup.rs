//! The addresses of a name, looked up once for all who wait for them.
//!
//! The system's resolver takes a thread for each question, until it is answered: a name whose servers do not answer would
//! otherwise soon have every thread there is, a queue behind them, and every other name with it.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tokio::sync::watch;
use tokio::task::spawn_local;

/// What a question brought; `None` until it has.
type Answer = Option<Result<Vec<SocketAddr>, (io::ErrorKind, String)>>;

/// The question that a pool has asked.
#[derive(Debug, Default)]
pub(super) struct NameLookup(RefCell<Option<(String, watch::Receiver<Answer>)>>);

impl NameLookup {
    /// The addresses of `host`, with `port`.
    ///
    /// # Errors
    /// The resolver's.
    pub(super) async fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let name = host.to_owned();
        self.ask(host, || async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) }).await
    }

    /// The answer to the question under way about `host`, or to a new one. It goes on when nobody waits for it any more:
    /// the resolver cannot be stopped, and whoever comes next would ask it again.
    async fn ask<F>(&self, host: &str, question: impl FnOnce() -> F) -> io::Result<Vec<SocketAddr>>
    where
        F: Future<Output = io::Result<Vec<SocketAddr>>> + 'static,
    {
        let mut answer = self.under_way(host).unwrap_or_else(|| {
            let (tell, answer) = watch::channel(None);
            let asking = question();
            spawn_local(async move {
                let found = asking.await.map_err(|error| (error.kind(), error.to_string()));
                tell.send_replace(Some(found));
            });
            self.0.replace(Some((host.to_owned(), answer.clone())));
            answer
        });
        let answer = answer.wait_for(Option::is_some).await.ok().and_then(|answer| (*answer).clone());
        let answer = answer.unwrap_or_else(|| Err((io::ErrorKind::Interrupted, "the question was dropped".to_owned())));
        answer.map_err(|(kind, text)| io::Error::new(kind, text))
    }

    fn under_way(&self, host: &str) -> Option<watch::Receiver<Answer>> {
        let asked = self.0.borrow();
        let (_, answer) = asked.as_ref().filter(|(name, answer)| name == host && answer.borrow().is_none())?;
        // Whoever was to answer may be gone without having done so.
        answer.has_changed().is_ok().then(|| answer.clone())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    use tokio::task::LocalSet;
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn those_who_wait_for_a_name_ask_once() {
        let (names, asked) = (NameLookup::default(), Rc::new(Cell::new(0)));
        let address = SocketAddr::from(([192, 0, 2, 1], 80));
        let slow = |answer: io::Result<Vec<SocketAddr>>| {
            let asked = Rc::clone(&asked);
            move || {
                asked.set(asked.get() + 1);
                async move {
                    sleep(Duration::from_secs(30)).await;
                    answer
                }
            }
        };
        let bad = || io::Error::new(io::ErrorKind::NotFound, "no such name");
        let both = async {
            // Who gives up and comes again finds the question that is under way.
            for _ in 0..10 {
                timeout(Duration::from_secs(1), names.ask("a", slow(Err(bad())))).await.unwrap_err();
            }
            let (one, other) = tokio::join!(names.ask("a", slow(Ok(vec![]))), names.ask("a", slow(Ok(vec![]))));
            assert_eq!(one.unwrap_err().to_string(), "no such name");
            assert_eq!(other.unwrap_err().kind(), io::ErrorKind::NotFound);
            assert_eq!(asked.get(), 1);
            // What was answered is asked anew, and another name has a question of its own.
            assert_eq!(names.ask("a", slow(Ok(vec![address]))).await.unwrap(), [address]);
            assert_eq!(names.ask("b", slow(Ok(vec![]))).await.unwrap(), []);
            assert_eq!(asked.get(), 3);
        };
        LocalSet::new().run_until(both).await;
    }
}
