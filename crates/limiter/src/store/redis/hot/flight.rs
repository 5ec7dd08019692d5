//! The task that asks one question for all who wait.

use std::sync::Arc;

use super::super::call;
use super::super::operands::Batch;
use super::Hot;
use super::flights::Waiter;
use super::question::Question;

/// Requests in one call at most. Redis does nothing else while it runs a script, and a log of what was taken has an
/// entry for each.
const MOST_AT_ONCE: usize = 1_024;

/// Lets go of those who wait unless their task ended as it should.
struct Landing {
    hot: Arc<Hot>,
    identity: u128,
    safe: bool,
}

/// Asks for those who wait until nobody does.
pub(super) async fn run(hot: Arc<Hot>, question: Arc<Question>) {
    let identity = question.identity.question;
    let mut landing = Landing { hot: Arc::clone(&hot), identity, safe: false };
    let most = question.countable(MOST_AT_ONCE);
    while let Some(waiters) = hot.flights.next(identity, most) {
        let left = ask(&hot, &question, waiters).await;
        hot.flights.put_back(identity, left);
        // Those who know now ask again, perhaps: they are heard before this task thinks that nobody waits.
        tokio::task::yield_now().await;
    }
    landing.safe = true;
}

/// Asks once, for all of `waiters`; returns those who ask again, since not all could pass.
async fn ask(hot: &Arc<Hot>, question: &Arc<Question>, mut waiters: Vec<Waiter>) -> Vec<Waiter> {
    // The one who waits for the longest time from now.
    let Some(ticket) = waiters.last().map(|last| last.ticket.clone()) else { return waiters };
    let others = ticket.clone();
    let waiting = waiters.len() as u64;
    let spare = question.lease.map_or(0, |terms| hot.leases.wants(question.identity.question, terms));
    let requests = question.countable(usize::try_from(waiting + spare).unwrap_or(waiters.len())) as u64;
    let call = question.call(Batch { requests, waiting });
    let (seen, sent_us) = (hot.look(call.keys()), hot.now_us(&question.style));
    let read = |reply: &_| {
        let (admitted, answers) = call::batch_answers(reply, question.len())?;
        Some((admitted, question.verdict(&answers, 0)?, answers))
    };
    hot.called_for(waiters.len());
    let answer = ticket.decide(call, read).await;
    if answer.is_ok() {
        let late = waiters.iter().filter(|waiter| waiter.answer.is_closed() && waiter.is_late());
        late.for_each(|waiter| waiter.ticket.was_late());
    }
    match answer {
        Err(kind) => {
            // Those who waited until their time was up, too.
            let failed = waiters.iter().filter(|waiter| !waiter.answer.is_closed() || waiter.is_late()).count();
            others.failed_others(kind, failed.saturating_sub(1));
            waiters.into_iter().for_each(|waiter| drop(waiter.answer.send(Err(kind))));
            Vec::new()
        }
        Ok((0, denied, _)) => {
            if question.denial_cache {
                let times = [sent_us, hot.now_us(&question.style)];
                hot.note(question.identity, &denied, &question.costs(), seen, times);
            }
            hot.leases.answered(hot, question, 0, None);
            waiters.into_iter().for_each(|waiter| drop(waiter.answer.send(Ok(denied.clone()))));
            Vec::new()
        }
        Ok((admitted, last, answers)) => {
            if let Some(terms) = question.lease {
                let spare = admitted.saturating_sub(waiting);
                let brought = (spare > 0).then(|| (question.lease(terms, &answers, spare, sent_us), others));
                hot.leases.answered(hot, question, question.room(&answers), brought);
            }
            let left = waiters.split_off(admitted.min(waiting) as usize);
            for (waiter, behind) in waiters.into_iter().zip((0..admitted).rev()) {
                let verdict = question.verdict(&answers, behind).unwrap_or_else(|| last.clone());
                drop(waiter.answer.send(Ok(verdict)));
            }
            left
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        if !self.safe {
            self.hot.flights.abandon(self.identity);
        }
    }
}
