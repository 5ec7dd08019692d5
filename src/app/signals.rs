//! Signals that the process handles.

use std::convert::Infallible;
use std::io;
use std::process;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::unistd::Pid;
use tokio::signal::unix::{self, SignalKind};

use crate::app::process::End;

/// Request of an operator to the running gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// SIGHUP: read the configuration again, and open the logs again.
    Reload,
    /// SIGUSR1: open the logs again, as logrotate and nginx's users expect.
    ReopenLogs,
    /// SIGUSR2: hand the listening sockets to a new process.
    HandOver,
}

/// Signals of commands, held back from the start of the process until their handlers are installed: a signal in between would end
/// the process. Dropping this delivers them. Threads inherit what is held back, so none may start before.
pub struct HeldSignals {
    before: SigSet,
}

/// Signals that do not end the process. Their handlers are installed before the configuration is read; a signal that arrives
/// meanwhile waits until the gateway serves.
pub(super) struct CommandSignals {
    hangup: unix::Signal,
    user1: unix::Signal,
    user2: unix::Signal,
}

/// Signals that end the process: SIGTERM, SIGINT and SIGQUIT drain.
pub(super) struct ShutDownSignals {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    quit: unix::Signal,
}

/// Time for an orderly exit after the second signal.
const EXIT_AFTER: Duration = Duration::from_millis(700);

/// Ends the process within a second of the second signal for shutdown, on a thread of its own. The main thread may hang
/// then, in a system call for example.
///
/// # Errors
/// The thread or the handlers cannot be created.
pub(super) fn exit_after_second_shut_down() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        ShutDownSignals::new()?
    };
    let wait = move || {
        runtime.block_on(async {
            signals.next().await;
            signals.next().await;
            tokio::time::sleep(EXIT_AFTER).await;
        });
        process::exit(0);
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

impl HeldSignals {
    /// Holds the signals back.
    pub fn hold() -> Option<Self> {
        let commands = SigSet::from_iter([Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2]);
        let before = commands.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok()?;
        Some(Self { before })
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        let _ = self.before.thread_set_mask();
    }
}

impl CommandSignals {
    /// Installs the handlers. Must be called within a runtime.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: unix::signal(SignalKind::hangup())?,
            user1: unix::signal(SignalKind::user_defined1())?,
            user2: unix::signal(SignalKind::user_defined2())?,
        })
    }

    /// Passes signals on to the process that has taken over: operators and service managers learn its number late. It stays a
    /// child of this one, so its number is not used again.
    pub(super) async fn pass_on(&mut self, end: End) -> Infallible {
        loop {
            let signal = match self.next().await {
                Command::Reload => Signal::SIGHUP,
                Command::ReopenLogs => Signal::SIGUSR1,
                // It has taken place.
                Command::HandOver => continue,
            };
            if let End::HandedOver { successor: Some(pid) } = end
                && let Ok(pid) = i32::try_from(pid)
            {
                tracing::info!(%signal, pid, "signal passed on to the process that has taken over");
                let _ = kill(Pid::from_raw(pid), signal);
            }
        }
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Command {
        tokio::select! {
            _ = self.hangup.recv() => Command::Reload,
            _ = self.user1.recv() => Command::ReopenLogs,
            _ = self.user2.recv() => Command::HandOver,
        }
    }
}

impl ShutDownSignals {
    /// Installs the handlers. Must be called within a runtime.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
            quit: unix::signal(SignalKind::quit())?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = self.quit.recv() => {}
        }
    }
}
