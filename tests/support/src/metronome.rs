//! Scheduling delay of this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const BEAT: Duration = Duration::from_millis(5);

/// Thread that wakes up periodically and records its largest delay. Other threads may have been delayed as much by the
/// machine. Ends with its handle.
#[derive(Debug)]
pub struct Metronome {
    latest_ns: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Metronome {
    /// Starts the thread.
    pub fn start() -> Self {
        let metronome = Self { latest_ns: Arc::default(), ended: Arc::default() };
        let (latest_ns, ended) = (Arc::clone(&metronome.latest_ns), Arc::clone(&metronome.ended));
        std::thread::spawn(move || {
            while !ended.load(SeqCst) {
                let start = Instant::now();
                std::thread::sleep(BEAT);
                let late = start.elapsed().saturating_sub(BEAT);
                latest_ns.fetch_max(u64::try_from(late.as_nanos()).unwrap(), SeqCst);
            }
        });
        metronome
    }

    /// Returns the largest delay so far.
    pub fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest_ns.load(SeqCst))
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.ended.store(true, SeqCst);
    }
}
