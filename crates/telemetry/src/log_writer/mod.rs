//! Threads that write the access log and the gateway's log, so that a slow disk, a full pipe or a pipe without a reader
//! delays neither a request nor the start nor the shutdown.

mod output;
mod queue;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::output::Output;
pub use self::output::Target;
use self::queue::{Queue, Task};

/// Interval of a writer's periodic work.
const TICK: Duration = Duration::from_secs(1);

/// Handle that queues lines for a writing thread. Cheap to clone; never blocks.
#[derive(Clone, Debug)]
pub struct LogWriter {
    queue: Arc<Queue>,
}

/// Properties of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Name of the log in messages, and of its thread.
    pub name: &'static str,
    /// Bound of the queue in bytes. Lines that do not fit are dropped and counted.
    pub max_queued_bytes: usize,
    /// True for the gateway's own log, which receives the reports of lost lines.
    pub is_gateway_log: bool,
    /// Called about once a second on the writing thread.
    pub on_tick: fn(),
}

impl LogWriter {
    /// Opens `target` and starts the thread. A named pipe may lack a reader; its lines are lost until one opens it.
    ///
    /// # Errors
    /// The file cannot be opened, or the thread cannot be created.
    pub fn start(target: Target, options: LogOptions) -> io::Result<Self> {
        let output = Output::open(target)?;
        if !output.is_open() {
            tracing::warn!(log = options.name, "named pipe has no reader: log lines are lost until one opens it");
        }
        let queue = Arc::new(Queue::new(options.max_queued_bytes));
        let shared = Arc::clone(&queue);
        std::thread::Builder::new().name(options.name.into()).spawn(move || {
            run(&shared, output, options);
            shared.end();
        })?;
        Ok(Self { queue })
    }

    /// Queues `text`, which holds `lines` lines. Lines that do not fit are dropped and counted.
    pub fn write(&self, text: Vec<u8>, lines: u64) {
        self.queue.push(text, lines);
    }

    /// Reopens the log file, after logrotate has moved it.
    pub fn reopen(&self) {
        self.queue.request_reopen();
    }

    /// Returns true if the log could not be opened again: lines go to a file that was moved or removed.
    pub fn is_misplaced(&self) -> bool {
        self.queue.is_misplaced()
    }

    /// Waits until every line is written, for at most `timeout`. Later lines are lost. Returns false at the timeout: the
    /// thread is left to the end of the process, and its lines are lost.
    pub fn close(&self, timeout: Duration) -> bool {
        self.queue.close(timeout)
    }

    /// Returns the number of lines dropped because the disk or the reader was too slow, was missing, or failed.
    pub fn lost(&self) -> u64 {
        self.queue.lost()
    }
}

/// Writes queued lines until the log is closed.
fn run(queue: &Queue, mut output: Output, options: LogOptions) {
    let mut report = LossReport::default();
    let mut ticked = Instant::now();
    loop {
        match queue.next(TICK) {
            Task::Write(chunk) => {
                let written = output.write(&chunk, &|| queue.is_interrupted());
                queue.wrote(&chunk, written.lines);
                report.is_working = written.error.is_none();
                if written.error.is_some() {
                    report.error = written.error;
                }
            }
            Task::Reopen => reopen(queue, &mut output, options.name),
            Task::Tick => {}
            Task::End => return,
        }
        report.log(options, queue.lost());
        if ticked.elapsed() >= TICK {
            ticked = Instant::now();
            if queue.is_misplaced() {
                reopen(queue, &mut output, options.name);
            }
            (options.on_tick)();
        }
    }
}

/// Opens the log again. Until that succeeds, lines go where they went before, and the next tick tries again.
fn reopen(queue: &Queue, output: &mut Output, log: &str) {
    let result = output.reopen();
    let was_misplaced = queue.set_misplaced(result.is_err());
    match result {
        Ok(()) if was_misplaced => tracing::info!(log, "log opened again: lines go to its file"),
        Err(error) if !was_misplaced => {
            let path = output.path();
            let help = "create the folder, or grant access: the gateway tries again each second";
            tracing::warn!(log, path, %error, help, "log not opened again: lines still go to the file that was moved");
        }
        _ => {}
    }
}

/// Reports of lost lines in the gateway's log.
#[derive(Debug, Default)]
struct LossReport {
    error: Option<io::Error>,
    /// True if the last write succeeded.
    is_working: bool,
    reported: u64,
    last: Option<Instant>,
}

/// Shortest time between two reports of lost lines.
const REPORT_EVERY: Duration = Duration::from_secs(10);

impl LossReport {
    fn log(&mut self, LogOptions { name, is_gateway_log, .. }: LogOptions, lost: u64) {
        // A report on the gateway's own log is possible only while that log works.
        let is_possible = self.is_working || !is_gateway_log;
        if lost == self.reported || !is_possible || self.last.is_some_and(|last| last.elapsed() < REPORT_EVERY) {
            return;
        }
        let lines = lost - self.reported;
        match self.error.take() {
            Some(error) => tracing::warn!(log = name, lines, %error, "log write failed, lines are lost"),
            None => tracing::warn!(log = name, lines, "log output is too slow, lines are lost"),
        }
        (self.reported, self.last) = (lost, Some(Instant::now()));
    }
}
