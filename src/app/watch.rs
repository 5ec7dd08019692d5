//! Watch of the configuration's files.
//!
//! The folders of the files are watched by inotify(7), which only wakes this task up: whether a file has changed, its state
//! says. So links, renames, lost events, and folders that come and go need no code of their own, and without inotify, as for
//! files of a network, the same check runs at an interval.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::unix::pipe::Receiver;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use tollgate_bounded_file::FileRecord;
use tollgate_transport::executor::OwnedTask;

/// Time without a change after which files are read. An editor writes in several steps.
const QUIET: Duration = Duration::from_millis(250);
/// Time after which files are read that change all the time.
const MAX_UNQUIET: Duration = Duration::from_secs(1);
/// Interval of the check without inotify.
const INTERVAL: Duration = Duration::from_secs(1);
/// Interval with inotify, for changes that it does not see, such as those of another machine.
const INTERVAL_WITH_EVENTS: Duration = Duration::from_secs(5);
/// Bytes for events that are read at once.
const EVENT_BYTES: usize = 4096;

/// Watch of the files that a load has read.
pub(super) struct FileWatch {
    files: Arc<FileRecord>,
    changed: Arc<Notify>,
    _task: Option<OwnedTask>,
}

impl FileWatch {
    /// Watches `files`, if `is_on`. Must be called within a `LocalSet`.
    pub(super) fn new(files: FileRecord, is_on: bool) -> Self {
        let (files, changed) = (Arc::new(files), Arc::<Notify>::default());
        let watch = || OwnedTask::start(watch(Arc::clone(&files), Arc::clone(&changed)));
        let task = (is_on && files.files() > 0).then(watch);
        Self { files, changed, _task: task }
    }

    /// Returns the files of the last load.
    pub(super) fn files(&self) -> Arc<FileRecord> {
        Arc::clone(&self.files)
    }

    /// Waits until a file has changed since the load.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// Reports that `files` have changed, once they are quiet.
async fn watch(files: Arc<FileRecord>, changed: Arc<Notify>) {
    wait_for_change(&files).await;
    loop {
        wait_for_quiet(&files).await;
        changed.notify_one();
        // A reload ends this watch, unless it cannot read.
        sleep(INTERVAL).await;
    }
}

async fn wait_for_change(files: &Arc<FileRecord>) {
    // inotify's descriptor is read as a pipe is.
    let events = events::open().and_then(Receiver::from_owned_fd_unchecked).map(Arc::new).ok();
    while let Some(interval) = check(Arc::clone(files), events.clone()).await {
        // Events of other files in these folders may come at any rate.
        sleep(QUIET).await;
        match &events {
            Some(events) => drop(tokio::time::timeout(interval, next(events)).await),
            None => sleep(interval).await,
        }
    }
}

async fn wait_for_quiet(files: &Arc<FileRecord>) {
    let began = Instant::now();
    let state = || {
        let files = Arc::clone(files);
        spawn_blocking(move || files.state())
    };
    let mut before = state().await;
    while began.elapsed() < MAX_UNQUIET {
        sleep(QUIET).await;
        let now = state().await;
        if matches!((&before, &now), (Ok(before), Ok(now)) if before == now) {
            break;
        }
        before = now;
    }
}

/// Returns the time until the next check; `None` if a file has changed.
async fn check(files: Arc<FileRecord>, events: Option<Arc<Receiver>>) -> Option<Duration> {
    // A file system may take its time to answer.
    let check = spawn_blocking(move || {
        // First the watch, then the state: no change is between them.
        let has_events = events.is_some_and(|events| files.folders().iter().all(|path| events::add(&events, path)));
        files.is_current().then_some(if has_events { INTERVAL_WITH_EVENTS } else { INTERVAL })
    });
    check.await.unwrap_or(Some(INTERVAL))
}

/// Waits for events, and drops them.
async fn next(events: &Receiver) -> io::Result<()> {
    events.readable().await?;
    let mut buffer = [0; EVENT_BYTES];
    while events.try_read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
    Ok(())
}

#[cfg(target_os = "linux")]
mod events {
    use std::path::Path;

    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    use rustix::io::Errno;

    use super::{OwnedFd, Receiver, io};

    pub(super) fn open() -> io::Result<OwnedFd> {
        Ok(init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?)
    }

    /// Adds a folder; again does no harm. Returns false if it cannot be watched: it is unreadable, or the limit of the system
    /// is reached.
    pub(super) fn add(events: &Receiver, folder: &Path) -> bool {
        // A file that is written at present, such as a log, makes no event until it is closed.
        let entries = WatchFlags::CREATE | WatchFlags::CLOSE_WRITE | WatchFlags::MOVE | WatchFlags::DELETE;
        let itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ATTRIB | WatchFlags::ONLYDIR;
        // Removed since it was found: the next check finds another one.
        matches!(add_watch(events, folder, entries | itself), Ok(_) | Err(Errno::NOENT))
    }
}

#[cfg(not(target_os = "linux"))]
mod events {
    use std::path::Path;

    use super::{OwnedFd, Receiver, io};

    pub(super) fn open() -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn add(_: &Receiver, _: &Path) -> bool {
        false
    }
}
