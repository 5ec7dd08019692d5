//! Polls of a socket that has nothing to read.
//!
//! hyper's server polls a socket for reading whenever it polls the connection, several times for each request, of which one
//! finds bytes. A poll in vain costs tokio about 150 instructions. A gate answers it itself: from one such poll until
//! the socket wakes the task, there is nothing to read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};

/// Gate in front of the reads of one socket. All polls for reading pass through it.
#[derive(Debug)]
pub struct ReadGate {
    state: Arc<ReadGateState>,
    /// Opens the gate and wakes the task.
    opener: Waker,
    /// Task that polled last.
    task: Option<Waker>,
}

/// Socket whose reads pass through a gate.
#[derive(Debug)]
pub struct GatedReader<'s, S>(pub &'s mut S, pub &'s mut ReadGate);

impl<S: AsyncRead + Unpin> AsyncRead for GatedReader<'_, S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self(socket, gate) = &mut *self;
        gate.poll(cx, |cx| Pin::new(&mut **socket).poll_read(cx, buf))
    }
}

/// State of a gate, which the socket changes when it wakes the task.
#[derive(Debug, Default)]
struct ReadGateState {
    /// True from a poll that found nothing to read until the socket wakes the task.
    is_closed: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Wake for ReadGateState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_closed.store(false, SeqCst);
        if let Some(task) = &*self.task.lock() {
            task.wake_by_ref();
        }
    }
}

impl Default for ReadGate {
    fn default() -> Self {
        let state = Arc::<ReadGateState>::default();
        Self { opener: Arc::clone(&state).into(), state, task: None }
    }
}

impl ReadGate {
    /// Reads by `read`, unless the socket had nothing to read and has not woken the task since.
    pub fn poll<T>(&mut self, cx: &mut Context<'_>, read: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        let is_same_task = self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker()));
        if is_same_task && self.state.is_closed.load(SeqCst) {
            return Poll::Pending;
        }
        if !is_same_task {
            self.task = Some(cx.waker().clone());
            *self.state.task.lock() = Some(cx.waker().clone());
        }
        // Closed before the poll: the socket may wake the task at once.
        self.state.is_closed.store(true, SeqCst);
        let progress = read(&mut Context::from_waker(&self.opener));
        if progress.is_ready() {
            self.state.is_closed.store(false, SeqCst);
        }
        progress
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// Polls `gate` for `task`. Returns the waker that a read without bytes got; `None` if there was no read.
    fn poll(gate: &mut ReadGate, task: &Arc<Task>) -> Option<Waker> {
        let mut waker = None;
        let read = |cx: &mut Context<'_>| {
            waker = Some(cx.waker().clone());
            Poll::<()>::Pending
        };
        assert!(gate.poll(&mut Context::from_waker(&Arc::clone(task).into()), read).is_pending());
        waker
    }

    #[test]
    fn the_socket_is_not_polled_again_until_it_wakes_the_task() {
        let (mut gate, task) = (ReadGate::default(), Arc::<Task>::default());
        for count in 1..4 {
            assert!(!gate.state.is_closed.load(SeqCst));
            let socket = poll(&mut gate, &task);
            assert!(gate.state.is_closed.load(SeqCst) && poll(&mut gate, &task).is_none());
            socket.iter().for_each(Waker::wake_by_ref);
            assert_eq!(task.0.load(Relaxed), count);
        }
    }

    #[test]
    fn a_read_leaves_the_gate_open() {
        let (mut gate, task) = (ReadGate::default(), Arc::<Task>::default());
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(gate.poll(cx, |_| Poll::Ready(())).is_ready() && gate.poll(cx, |_| Poll::Ready(())).is_ready());
        assert!(poll(&mut gate, &task).is_some());
    }

    #[test]
    fn another_task_takes_the_place_of_the_first() {
        let (mut gate, first, second) = (ReadGate::default(), Arc::<Task>::default(), Arc::<Task>::default());
        assert!(poll(&mut gate, &first).is_some());
        let socket = poll(&mut gate, &second);
        socket.iter().for_each(Waker::wake_by_ref);
        assert_eq!((first.0.load(Relaxed), second.0.load(Relaxed)), (0, 1));
    }

    #[test]
    fn a_wake_during_the_poll_is_not_lost() {
        let (mut gate, task) = (ReadGate::default(), Arc::<Task>::default());
        let woken = |cx: &mut Context<'_>| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        };
        let waker = Waker::from(Arc::clone(&task));
        assert!(gate.poll(&mut Context::from_waker(&waker), woken).is_pending());
        assert!(poll(&mut gate, &task).is_some());
    }
}
