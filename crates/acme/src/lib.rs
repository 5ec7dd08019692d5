//! Certificates from an ACME server (RFC 8555): ordered when they are missing, and renewed after two thirds of their life.
//!
//! One task of the main thread does one order after the other. Certificates are files in a folder (`storage`); handshakes get
//! a new one by [`ServerTls::read_certificates_again`], so that neither a listener nor a connection is touched.

mod order;
mod storage;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tollgate_config::{Acme, Config, ServerTls};
use tollgate_transport::certificate::Validity;
use tollgate_transport::error_chain;
use tollgate_transport::executor::OwnedTask;

use crate::order::{OrderError, obtain};

/// Time for an order. The server has a minute and a half each to verify the name and to issue the certificate.
const ORDER_TIMEOUT: Duration = Duration::from_mins(5);
/// Wait after the first failure of a name; four times as long after each further one. Let's Encrypt admits five an hour.
const FIRST_RETRY: Duration = Duration::from_secs(20);
/// Longest wait between two attempts.
const MAX_RETRY: Duration = Duration::from_hours(6);
/// Shortest wait after a limit of the server.
const RATE_LIMIT_RETRY: Duration = Duration::from_hours(1);
/// Longest sleep: the clock may be set, and another gateway may renew a certificate in a shared folder.
const MAX_SLEEP: Duration = Duration::from_mins(10);

/// Task that keeps the certificates of `server.acme`.
#[derive(Debug)]
pub struct Certificates {
    retry: Arc<Notify>,
    _task: OwnedTask,
}

/// Failed attempts for one name.
struct Failures {
    count: u32,
    next: SystemTime,
}

/// State of the task.
struct Keeper {
    failures: HashMap<String, Failures>,
    /// End of the validity of each certificate that handshakes get.
    presented: HashMap<String, SystemTime>,
    /// Part of the life, up to a twentieth, by which gateways renew at different times.
    jitter: f64,
}

impl Certificates {
    /// Starts the task, which follows the configuration. Must be called within a `LocalSet`.
    pub fn start(configs: watch::Receiver<Arc<Config>>) -> Self {
        let retry = Arc::new(Notify::new());
        let jitter = fastrand::f64() / 20.0;
        let keeper = Keeper { failures: HashMap::new(), presented: HashMap::new(), jitter };
        let task = OwnedTask::start(keeper.run(configs, Arc::clone(&retry)));
        Self { retry, _task: task }
    }

    /// Attempts failed orders again at once, because an operator asks for it by a reload. A change of a file does not.
    pub fn retry(&self) {
        self.retry.notify_one();
    }
}

impl Keeper {
    async fn run(mut self, mut configs: watch::Receiver<Arc<Config>>, retry: Arc<Notify>) {
        loop {
            let config = Arc::clone(&configs.borrow_and_update());
            let (acme, tls) = (&config.server.acme, &config.server.tls);
            let mut wait = MAX_SLEEP;
            if let (Some(acme), Some(tls)) = (acme, tls) {
                let mut others = configs.clone();
                tokio::select! {
                    // An order may hang because of the settings that have changed.
                    _ = others.wait_for(|other| other.server.acme.as_ref() != Some(acme)) => self.failures.clear(),
                    next = self.keep_all(acme, tls) => wait = next,
                }
            }
            drop(config);
            tokio::select! {
                changed = configs.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // The new configuration has read the files before the last one was written.
                    self.presented.clear();
                }
                () = retry.notified() => self.failures.clear(),
                () = sleep(wait) => {}
            }
        }
    }

    /// Obtains the certificates that are due. Returns the time until the next one is.
    async fn keep_all(&mut self, acme: &Acme, tls: &ServerTls) -> Duration {
        for domain in &acme.domains {
            self.keep(acme, domain, tls).await;
        }
        let next = acme.domains.iter().map(|domain| self.due(acme, domain)).min();
        let wait = next.and_then(|next| next.duration_since(SystemTime::now()).ok()).unwrap_or_default();
        wait.clamp(Duration::from_secs(1), MAX_SLEEP)
    }

    /// Obtains the certificate of `domain` if it is due, and presents the one in the folder.
    async fn keep(&mut self, acme: &Acme, domain: &str, tls: &ServerTls) {
        if self.due(acme, domain) <= SystemTime::now() {
            let ordered = timeout(ORDER_TIMEOUT, obtain(acme, domain)).await;
            match ordered.unwrap_or(Err(OrderError::Timeout(ORDER_TIMEOUT))) {
                // Without a wait, each round would order another one.
                Ok(validity) if self.renewal(validity) <= SystemTime::now() => {
                    self.failed(acme, domain, &OrderError::Due);
                }
                Ok(validity) => {
                    self.failures.remove(domain);
                    let days = validity.length().as_secs() / 86_400;
                    tracing::info!(domain, valid_days = days, "certificate obtained");
                }
                Err(error) => self.failed(acme, domain, &error),
            }
        }
        let stored = storage::stored(acme, domain).map(|validity| validity.not_after);
        if let Some(not_after) = stored
            && self.presented.get(domain) != Some(&not_after)
        {
            match tls.read_certificates_again() {
                Ok(()) => drop(self.presented.insert(domain.to_owned(), not_after)),
                Err(error) => {
                    tracing::error!(domain, %error, "certificates not read again, the former ones stay in use")
                }
            }
        }
    }

    /// Returns the time of the next attempt for `domain`.
    fn due(&self, acme: &Acme, domain: &str) -> SystemTime {
        let due = storage::stored(acme, domain).map_or(SystemTime::UNIX_EPOCH, |validity| self.renewal(validity));
        let next = self.failures.get(domain).map_or(due, |failures| failures.next);
        due.max(next)
    }

    /// Returns the time at which a certificate is renewed: after two thirds of its life, a little earlier by the jitter.
    fn renewal(&self, validity: Validity) -> SystemTime {
        validity.not_before + validity.length().mul_f64(2.0 / 3.0 - self.jitter)
    }

    fn failed(&mut self, acme: &Acme, domain: &str, error: &OrderError) {
        let count = self.failures.get(domain).map_or(1, |failures| failures.count + 1);
        let wait = FIRST_RETRY.saturating_mul(4_u32.saturating_pow(count - 1)).min(MAX_RETRY);
        let wait = if error.is_rate_limit() { wait.max(RATE_LIMIT_RETRY) } else { wait };
        let wait = wait.mul_f64(1.0 + fastrand::f64() / 4.0);
        self.failures.insert(domain.to_owned(), Failures { count, next: SystemTime::now() + wait });
        let reason = error_chain(error);
        let advice = error.advice(acme.uses_http);
        let retry_in = format!("{}s", wait.as_secs());
        tracing::error!(
            domain,
            error = reason,
            advice,
            retry_in,
            "certificate not obtained; a reload tries again at once"
        );
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use instant_acme::Problem;

    use super::*;

    #[test]
    fn waits_grow_from_seconds_to_hours_and_a_limit_of_the_server_waits_an_hour() {
        let acme = Acme::default();
        let mut keeper = Keeper { failures: HashMap::new(), presented: HashMap::new(), jitter: 0.0 };
        let wait_after = |keeper: &mut Keeper, error: OrderError| {
            keeper.failed(&acme, "shop.example", &error);
            keeper.failures["shop.example"].next.duration_since(SystemTime::now()).unwrap().as_secs()
        };
        let waits: Vec<_> = (0..40).map(|_| wait_after(&mut keeper, OrderError::NoChallenge)).collect();
        for (wait, least) in waits.iter().zip([20, 80, 320, 1_280, 5_120, 20_480, 21_600]) {
            assert!((least - 1..=least * 5 / 4).contains(wait), "{waits:?}");
        }
        assert!(waits[7..].iter().all(|wait| (21_599..=27_000).contains(wait)), "{waits:?}");
        keeper.failures.clear();
        let kind = Some("urn:ietf:params:acme:error:rateLimited".to_owned());
        let limit = Problem { r#type: kind, detail: None, status: None, subproblems: Vec::new() };
        assert!((3_599..=4_500).contains(&wait_after(&mut keeper, OrderError::NotVerified(limit))));
    }
}
