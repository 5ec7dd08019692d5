//! Bounded queue between the threads that log and the thread that writes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Queue of one log.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Signalled when the thread has work.
    work: Condvar,
    /// Signalled when the thread has ended.
    ended: Condvar,
    lost: AtomicU64,
    /// True if the log could not be opened again.
    is_misplaced: AtomicBool,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Chunk>,
    /// Bytes of all chunks, the one being written included.
    bytes: usize,
    /// Lines of all chunks, the one being written included.
    lines: u64,
    wants_reopen: bool,
    /// Time at which the thread shall give up; `None` until the log is closed.
    close_at: Option<Instant>,
    is_ended: bool,
}

/// Whole lines.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) text: Vec<u8>,
    pub(super) lines: u64,
}

/// Next work of the thread.
pub(super) enum Task {
    Write(Chunk),
    Reopen,
    /// No work arrived in time.
    Tick,
    /// The log is closed, and every line is written or lost.
    End,
}

impl Queue {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            ended: Condvar::new(),
            lost: AtomicU64::new(0),
            is_misplaced: AtomicBool::new(false),
            max_bytes,
        }
    }

    pub(super) fn push(&self, text: Vec<u8>, lines: u64) {
        let mut state = self.state.lock();
        if state.is_ended || state.bytes + text.len() > self.max_bytes {
            drop(state);
            self.lost.fetch_add(lines, Relaxed);
            return;
        }
        state.bytes += text.len();
        state.lines += lines;
        state.chunks.push_back(Chunk { text, lines });
        drop(state);
        self.work.notify_one();
    }

    pub(super) fn request_reopen(&self) {
        self.state.lock().wants_reopen = true;
        self.work.notify_one();
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    pub(super) fn is_misplaced(&self) -> bool {
        self.is_misplaced.load(Relaxed)
    }

    /// Returns the value before.
    pub(super) fn set_misplaced(&self, is_misplaced: bool) -> bool {
        self.is_misplaced.swap(is_misplaced, Relaxed)
    }

    /// Closes the queue and waits for the thread. Returns false at the timeout; the remaining lines are counted as lost.
    pub(super) fn close(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.state.lock();
        state.close_at = Some(deadline);
        self.work.notify_one();
        while !state.is_ended {
            if self.ended.wait_until(&mut state, deadline).timed_out() && !state.is_ended {
                state.abandon(&self.lost);
                return false;
            }
        }
        true
    }

    /// Waits for work, for at most `timeout`.
    pub(super) fn next(&self, timeout: Duration) -> Task {
        let mut state = self.state.lock();
        loop {
            if state.is_ended || state.is_past_deadline() {
                return Task::End;
            }
            if std::mem::take(&mut state.wants_reopen) {
                return Task::Reopen;
            }
            if let Some(chunk) = state.chunks.pop_front() {
                return Task::Write(chunk);
            }
            if state.close_at.is_some() {
                return Task::End;
            }
            if self.work.wait_for(&mut state, timeout).timed_out() {
                return Task::Tick;
            }
        }
    }

    /// Counts the lines of `chunk` after the first `written` as lost.
    pub(super) fn wrote(&self, chunk: &Chunk, written: u64) {
        let mut state = self.state.lock();
        if state.is_ended {
            return;
        }
        state.bytes -= chunk.text.len();
        state.lines -= chunk.lines;
        drop(state);
        self.lost.fetch_add(chunk.lines.saturating_sub(written), Relaxed);
    }

    /// Returns true if a write that makes no progress shall stop: the file is to be reopened, or the closing time has
    /// passed.
    pub(super) fn is_interrupted(&self) -> bool {
        let state = self.state.lock();
        state.wants_reopen || state.is_ended || state.is_past_deadline()
    }

    /// Marks the end of the thread.
    pub(super) fn end(&self) {
        self.state.lock().abandon(&self.lost);
        self.ended.notify_all();
    }
}

impl State {
    fn is_past_deadline(&self) -> bool {
        self.close_at.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Counts the lines that are left as lost, once.
    fn abandon(&mut self, lost: &AtomicU64) {
        self.is_ended = true;
        self.chunks.clear();
        self.bytes = 0;
        lost.fetch_add(std::mem::take(&mut self.lines), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    fn next_chunk(queue: &Queue) -> Chunk {
        match queue.next(Duration::ZERO) {
            Task::Write(chunk) => chunk,
            _ => panic!("no chunk"),
        }
    }

    #[test]
    fn lines_past_the_bound_are_counted_and_not_kept() {
        let queue = Queue::new(10);
        queue.push(b"12345\n".to_vec(), 1);
        queue.push(b"12345\n".to_vec(), 1);
        assert_eq!(queue.lost(), 1);
        assert!(matches!(queue.next(Duration::ZERO), Task::Write(chunk) if chunk.text == b"12345\n"));
        assert!(matches!(queue.next(Duration::ZERO), Task::Tick));
    }

    #[test]
    fn a_chunk_being_written_still_counts_against_the_bound() {
        let queue = Queue::new(10);
        queue.push(b"12345\n".to_vec(), 1);
        let chunk = next_chunk(&queue);
        queue.push(b"12345\n".to_vec(), 1);
        assert_eq!(queue.lost(), 1);
        queue.wrote(&chunk, 1);
        queue.push(b"12345\n".to_vec(), 1);
        assert_eq!(queue.lost(), 1);
    }

    #[test]
    fn closing_gives_up_on_a_thread_that_hangs_and_counts_its_lines() {
        let queue = Queue::new(100);
        queue.push(b"a\nb\n".to_vec(), 2);
        let chunk = next_chunk(&queue);
        queue.push(b"c\n".to_vec(), 1);
        assert!(!queue.close(Duration::from_millis(1)));
        assert_eq!(queue.lost(), 3);
        queue.wrote(&chunk, 0);
        queue.end();
        queue.push(b"d\n".to_vec(), 1);
        assert_eq!(queue.lost(), 4, "each lost line counts once");
        assert!(queue.close(Duration::ZERO));
    }
}
