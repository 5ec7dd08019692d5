//! Thread that writes the access log, so that a slow disk or a full pipe never delays a request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use tollgate_config::LogOutput;

/// Queue length in chunks of about 32 KB. If the queue is full, lines are dropped and counted.
const QUEUE_CHUNKS: usize = 256;

/// Handle that sends chunks of lines to the writing thread. Cheap to clone.
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
    /// Opens `output` and starts the thread; returns `None` if the output is off. Once all clones are dropped, joining
    /// the thread waits until every line is written.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn start(output: &LogOutput) -> io::Result<Option<(Self, JoinHandle<()>)>> {
        let mut sink = match output {
            LogOutput::Off => return Ok(None),
            LogOutput::Stdout => LogFile::Stdout,
            LogOutput::File(path) => LogFile::File(path.as_path().into(), append(path)?),
        };
        let (queue, messages) = sync_channel(QUEUE_CHUNKS);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let thread = std::thread::Builder::new()
            .name("access-log".into())
            .spawn(move || write_all(&messages, &mut sink, &counter))?;
        Ok(Some((Self { queue, lost }, thread)))
    }

    /// Queues `text`, which holds `lines` lines. Never blocks: lines that do not fit are dropped and counted.
    pub fn write(&self, text: Vec<u8>, lines: u64) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.queue.try_send(Message::Lines { text, lines })
        {
            self.lost.fetch_add(lines, Relaxed);
        }
    }

    /// Reopens the log file, after logrotate has moved it.
    pub fn reopen(&self) {
        let _ = self.queue.try_send(Message::Reopen);
    }

    /// Number of lines dropped because the disk or the reader was too slow, or failed.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

enum LogFile {
    Stdout,
    File(Box<Path>, File),
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write_all(messages: &Receiver<Message>, sink: &mut LogFile, lost: &AtomicU64) {
    for message in messages {
        match (message, &mut *sink) {
            (Message::Lines { text, lines }, sink) => {
                let written = match sink {
                    LogFile::Stdout => io::stdout().lock().write_all(&text).and_then(|()| io::stdout().flush()),
                    LogFile::File(_, file) => file.write_all(&text),
                };
                if let Err(error) = written
                    && lost.fetch_add(lines, Relaxed) == 0
                {
                    tracing::warn!(%error, "access log write failed, lines are lost");
                }
            }
            (Message::Reopen, LogFile::File(path, file)) => match append(path) {
                Ok(new) => *file = new,
                Err(error) => tracing::warn!(%error, path = %path.display(), "access log reopen failed"),
            },
            (Message::Reopen, LogFile::Stdout) => {}
        }
    }
}
