//! The thread that writes access-log lines, so that a slow disk or a full pipe never holds up a request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use tollgate_config::LogOutput;

/// Chunks (of about 32 KB) that may wait for the disk before lines are dropped and counted.
const QUEUE: usize = 256;

/// Hands chunks of lines to the writing thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogWriter {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Lines { text: Vec<u8>, lines: u64 },
    Reopen,
}

impl LogWriter {
    /// Opens `output` and starts the thread; `None` where the output is off. Join the handle after the last clone is
    /// dropped to have everything written.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn start(output: &LogOutput) -> io::Result<Option<(Self, JoinHandle<()>)>> {
        let mut sink = match output {
            LogOutput::Off => return Ok(None),
            LogOutput::Stdout => Sink::Stdout,
            LogOutput::File(path) => Sink::File(path.as_path().into(), append(path)?),
        };
        let (queue, messages) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let thread = std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_all(&messages, &mut sink, &counter))?;
        Ok(Some((Self { queue, lost }, thread)))
    }

    /// Hands over `text`, which holds `lines` lines. Never waits: what the queue cannot take is lost and counted.
    pub fn write(&self, text: Vec<u8>, lines: u64) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.queue.try_send(Message::Lines { text, lines })
        {
            self.lost.fetch_add(lines, Relaxed);
        }
    }

    /// Opens a log file anew, after logrotate has moved it.
    pub fn reopen(&self) {
        let _ = self.queue.try_send(Message::Reopen);
    }

    /// Lines that were lost because the disk or the reader could not keep up, or failed.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

enum Sink {
    Stdout,
    File(Box<Path>, File),
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write_all(messages: &Receiver<Message>, sink: &mut Sink, lost: &AtomicU64) {
    for message in messages {
        match (message, &mut *sink) {
            (Message::Lines { text, lines }, sink) => {
                let written = match sink {
                    Sink::Stdout => io::stdout().lock().write_all(&text).and_then(|()| io::stdout().flush()),
                    Sink::File(_, file) => file.write_all(&text),
                };
                if let Err(error) = written
                    && lost.fetch_add(lines, Relaxed) == 0
                {
                    tracing::warn!(%error, "cannot write the access log; lines are being lost");
                }
            }
            (Message::Reopen, Sink::File(path, file)) => match append(path) {
                Ok(new) => *file = new,
                Err(error) => tracing::warn!(%error, path = %path.display(), "cannot reopen the access log"),
            },
            (Message::Reopen, Sink::Stdout) => {}
        }
    }
}
