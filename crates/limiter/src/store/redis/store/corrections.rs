//! Corrections of what a key has consumed, and changes by an operator.

use std::sync::LazyLock;
use std::time::Duration;

use tokio::runtime::Handle;

use super::RedisStore;
use crate::store::Check;
use crate::store::redis::client::Unanswered;
use crate::store::redis::command::{self, LeaseTimes};
use crate::store::redis::error::StoreError;
use crate::store::redis::hot_keys::is_reply;
use crate::store::redis::invalidation::REVOKE;
use crate::store::redis::micros;
use crate::store::redis::script::Script;
use crate::store::redis::stats::Operation;

static REVOCATION: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../../../../lua/revoke.lua")));

impl RedisStore {
    /// Longest lease. It bounds the time for which a gateway that gets no notices uses a lease that was revoked.
    pub const MAX_LEASE: Duration = Duration::from_secs(1);

    /// Runs `change`, an operator's change of `check`, and revokes the leases on the key. Other gateways end them when they
    /// receive the notice, and within [`MAX_LEASE`](Self::MAX_LEASE) without it. Redis refuses the return of their
    /// unused requests, since they were counted before the change.
    ///
    /// # Errors
    /// As `change`, or Redis did not reply before it.
    pub async fn change_leased<E: From<Unanswered>>(
        &self,
        check: Check<'_>,
        change: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        // Until the change has been made, leases that are granted are revoked in advance.
        self.revoke_leases(check, Self::MAX_LEASE).await.map_err(|unanswered| unanswered.kind.unsent())?;
        change.await?;
        // If it fails, the first one still covers all leases.
        let _ = self.revoke_leases(check, Duration::ZERO).await;
        Ok(())
    }

    /// Revokes the leases on the key of `check` that are granted until `ahead` from now.
    async fn revoke_leases(&self, check: Check<'_>, ahead: Duration) -> Result<(), Unanswered> {
        let key = command::notice_key(&check, &self.options);
        let request = self.client.request(Operation::Settle, || self.slot(&check)).map_err(StoreError::unsent)?;
        let mut behind = request.clone();
        // A return that was due after the longest lease is late by then.
        let lasts = ahead + Self::MAX_LEASE + 2 * request.timeout() + Duration::from_secs(1);
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(REVOCATION.sha1()).arg(1).arg(command::revocation_of(&key));
        cmd.arg(ahead.as_micros().to_string()).arg(lasts.as_millis().to_string()).arg(self.options.clock_text());
        let reply = request.run(Some(&*REVOCATION), &cmd, is_reply).await;
        self.client.context().revocations.invalidate(&key);
        if reply.is_ok() {
            behind.notify(&[REVOKE.as_bytes(), &key].concat()).await;
        }
        reply
    }

    /// Returns the cost of a request, counted at `counted_at_us`, that another rule denied at `denied_at_us` or before. The
    /// caller does not wait.
    pub(super) fn return_cost(&self, check: Check<'_>, counted_at_us: u64, denied_at_us: u64) {
        let request = self.client.request(Operation::Settle, || self.slot(&check));
        let (Ok(runtime), Ok(request)) = (Handle::try_current(), request) else { return };
        // Sent within the deadline of the denial, and received within another one.
        let due_us = counted_at_us.max(denied_at_us).saturating_add(micros(2 * request.timeout()));
        let times = LeaseTimes { granted_us: counted_at_us, due_us };
        let call = command::return_leased(&[check], 1, times, &self.options);
        let keys = [command::notice_key(&check, &self.options)];
        runtime.spawn(async move { request.run_returning(Some(&call.script), &call.cmd(), &keys, is_reply).await });
    }

    /// Corrects a cost as [`settle`](crate::store::Store::settle) does, and waits for the confirmation.
    ///
    /// # Errors
    /// Redis did not confirm the correction.
    pub fn settle_confirmed(
        &self,
        check: Check<'_>,
        more: i64,
        counted_at_us: u64,
    ) -> impl Future<Output = Result<(), Unanswered>> + Send + use<> {
        let call = command::settle(&check, check.bounded(more), counted_at_us, &self.options);
        // Only returned tokens can invalidate a denial: for this worker at once.
        let returned: Vec<Vec<u8>> = call.keys.iter().take(usize::from(more < 0)).map(<[u8]>::to_vec).collect();
        returned.iter().for_each(|key| self.client.context().invalidations.invalidate(key));
        let request = self.client.request(Operation::Settle, || self.slot(&check));
        async move {
            // Failed corrections are counted with the failed calls.
            let request = request.map_err(StoreError::unsent)?;
            let read = |reply: &_| command::rule_verdicts(reply, 1);
            request.run_returning(Some(&call.script), &call.cmd(), &returned, read).await.map(drop)
        }
    }

    /// Deletes the state of a key under a rule (an operator's reset) and notifies all gateways. Rules of one limiter that
    /// share a string are deleted together. The fallback's state in this process is deleted too.
    ///
    /// # Errors
    /// Redis did not confirm it in time; it may have been deleted.
    pub async fn forget(&self, check: Check<'_>) -> Result<(), Unanswered> {
        self.local.forget(check.key, check.rule);
        let keys = command::decide(&[check], &[], &self.options).keys;
        let request = self.client.request(Operation::Settle, || self.slot(&check)).map_err(StoreError::unsent)?;
        let mut cmd = redis::cmd("DEL");
        keys.iter().for_each(|key| {
            cmd.arg(key);
        });
        let first: Vec<Vec<u8>> = keys.iter().take(1).map(<[u8]>::to_vec).collect();
        request.run_returning(None, &cmd, &first, |_| Some(())).await
    }
}
