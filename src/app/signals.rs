//! Signals that the process handles.

use std::io;

use tokio::signal::unix::{self, SignalKind};

/// Request of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// SIGHUP.
    Reload,
    /// SIGTERM or SIGINT.
    ShutDown,
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

    /// Waits for [`Signal::ShutDown`] and ignores others.
    pub(super) async fn shut_down(&mut self) {
        while self.next().await != Signal::ShutDown {}
    }
}
