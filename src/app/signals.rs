//! Signals that the process handles.

use std::io;
use std::process;
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{self, SignalKind};

/// Request of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGHUP.
    Reload,
    /// SIGTERM or SIGINT.
    ShutDown,
}

/// Time for an orderly exit after the second signal.
const EXIT_AFTER: Duration = Duration::from_millis(700);

/// Ends the process within a second of the second SIGTERM or SIGINT, on a thread of its own. The main thread may hang
/// then, in a system call for example.
///
/// # Errors
/// The thread or the handlers cannot be created.
pub(super) fn exit_after_second_shut_down() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        Signals::new()?
    };
    let wait = move || {
        runtime.block_on(async {
            signals.shut_down().await;
            signals.shut_down().await;
            tokio::time::sleep(EXIT_AFTER).await;
        });
        process::exit(0);
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

/// Signal handlers of the process.
pub(super) struct Signals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hangup: unix::Signal,
}

impl Signals {
    /// Installs the handlers. Must be called within a runtime.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            hangup: unix::signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::Reload,
            _ = self.terminate.recv() => Signal::ShutDown,
            _ = self.interrupt.recv() => Signal::ShutDown,
        }
    }

    /// Waits for SIGTERM or SIGINT. A SIGHUP stays for [`Signals::next`].
    pub(super) async fn shut_down(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
