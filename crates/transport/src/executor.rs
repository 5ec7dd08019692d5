//! Tasks on a single-threaded runtime.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tokio::task::{JoinHandle, spawn_local};

/// Tasks of a thread that wait for another future, at most.
const MAX_IDLE: usize = 256;

thread_local! {
    static IDLE: RefCell<Vec<Rc<Slot>>> = const { RefCell::new(Vec::new()) };
}

type Job = Pin<Box<dyn Future<Output = ()>>>;

/// Spawns `future` on the current thread. It is boxed, so that the code of tasks is compiled only once.
pub fn spawn_boxed(future: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
    let boxed: Pin<Box<dyn Future<Output = ()>>> = Box::pin(future);
    spawn_local(boxed)
}

/// Runs `future` on a task of the current thread that has completed another one, or on a new task.
///
/// A task of tokio is aligned to 128 bytes. The allocator of glibc takes 1,250 instructions for such a block.
pub fn spawn_reused(future: impl Future<Output = ()> + 'static) {
    let job: Job = Box::pin(future);
    loop {
        let Some(slot) = IDLE.with_borrow_mut(Vec::pop) else {
            let slot = Slot { job: RefCell::new(Some(job)), ..Slot::default() };
            spawn_local(ReusedTask(Rc::new(slot)));
            return;
        };
        if !slot.has_ended.get() {
            *slot.job.borrow_mut() = Some(job);
            if let Some(waker) = &*slot.waker.borrow() {
                waker.wake_by_ref();
            }
            return;
        }
    }
}

/// Future of a [`ReusedTask`], and the waker of the task.
#[derive(Default)]
struct Slot {
    job: RefCell<Option<Job>>,
    waker: RefCell<Option<Waker>>,
    /// True once the runtime has dropped the task.
    has_ended: Cell<bool>,
}

/// Task that runs one future after the other.
struct ReusedTask(Rc<Slot>);

impl Future for ReusedTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let slot = &self.0;
        let Some(mut job) = slot.job.take() else { return Poll::Pending };
        if job.as_mut().poll(cx).is_pending() {
            *slot.job.borrow_mut() = Some(job);
            return Poll::Pending;
        }
        drop(job);
        slot.waker.borrow_mut().get_or_insert_with(|| cx.waker().clone());
        IDLE.with_borrow_mut(|idle| {
            if idle.len() == MAX_IDLE {
                return Poll::Ready(());
            }
            idle.push(Rc::clone(slot));
            Poll::Pending
        })
    }
}

impl Drop for ReusedTask {
    fn drop(&mut self) {
        self.0.has_ended.set(true);
    }
}

/// Task on the current thread, which ends when this is dropped.
#[derive(Debug)]
pub struct OwnedTask(JoinHandle<()>);

impl OwnedTask {
    /// Starts the task.
    pub fn start(task: impl Future<Output = ()> + 'static) -> Self {
        Self(spawn_boxed(task))
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tokio::sync::oneshot;
    use tokio::task::{LocalSet, yield_now};

    use super::*;

    fn on_local_set(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    /// Runs a future, and returns the id of its task.
    async fn task_id() -> tokio::task::Id {
        let (send, id) = oneshot::channel();
        spawn_reused(async move {
            yield_now().await;
            let _ = send.send(tokio::task::id());
        });
        let id = id.await.unwrap();
        yield_now().await;
        id
    }

    #[test]
    fn a_task_runs_one_future_after_the_other() {
        on_local_set(async {
            let first = task_id().await;
            assert_eq!(task_id().await, first);
            let (_held, waiting) = oneshot::channel::<()>();
            spawn_reused(async { drop(waiting.await) });
            assert_ne!(task_id().await, first, "the task of a future that waits");
        });
    }

    #[test]
    fn a_task_that_has_ended_takes_no_future() {
        let ids: Vec<_> = (0..2)
            .map(|_| {
                let id = Cell::new(None);
                on_local_set(async { id.set(Some(task_id().await)) });
                id.get()
            })
            .collect();
        assert_ne!(ids[0], ids[1]);
        on_local_set(async {
            task_id().await;
            spawn_reused(async { panic!("a future") });
            yield_now().await;
            task_id().await;
        });
    }
}
