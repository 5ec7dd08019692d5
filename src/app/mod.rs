//! Life of the process: start, reload, drain.
//!
//! [`Startup::run`] starts the workers and the admin port ([`start`]), serves (`serving.rs`), applies changed configurations ([`reload`]) until a signal
//! requests shutdown, and then waits for in-flight requests (`drain.rs`). Each [`worker`](tollgate_proxy::worker) is a
//! thread with its own runtime; the main thread runs everything else.

mod admin_listeners;
mod buckets;
pub mod descriptors;
mod drain;
mod handover;
mod located_routes;
mod overlap;
mod process;
mod reader;
pub mod reload;
mod service_manager;
mod serving;
pub mod signals;
pub mod sockets;
pub mod source;
pub mod start;
mod watch;

use tollgate_bounded_file::FileRecord;
use tollgate_config::Loaded;

use self::process::Process;
use self::signals::{CommandSignals, HeldSignals, ShutDownSignals};
use self::sockets::Sockets;
use self::source::Source;
use self::start::StartError;

/// Runtime and signal handlers of a process that is about to read its configuration.
pub struct Startup {
    runtime: tokio::runtime::Runtime,
    commands: CommandSignals,
    sockets: Sockets,
}

impl Startup {
    /// Takes inherited sockets, and installs the handlers of the signals that do not end the process. Those that were `held` are
    /// delivered.
    ///
    /// # Errors
    /// The runtime or a handler cannot be created, or an inherited socket cannot be used.
    pub fn new(held: Option<HeldSignals>) -> Result<Self, StartError> {
        let sockets = Sockets::inherit()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let commands = {
            let _entered = runtime.enter();
            CommandSignals::new()?
        };
        drop(held);
        Ok(Self { runtime, commands, sockets })
    }

    /// Runs the gateway until a signal ends it. `source`, which was `loaded` from `files`, is read again on a reload.
    ///
    /// # Errors
    /// The gateway cannot start. It then listens on no address.
    pub fn run(mut self, source: &Source, (loaded, files): (Loaded, FileRecord)) -> Result<(), StartError> {
        signals::exit_after_second_shut_down()?;
        let local = tokio::task::LocalSet::new();
        let ended = local.block_on(&self.runtime, async {
            let mut shut_down = ShutDownSignals::new()?;
            let (mut process, waiting) = tokio::select! {
                started = Process::start(source, loaded, self.sockets) => started?,
                () = shut_down.next() => {
                    tracing::info!("shut down before the start was complete");
                    return Ok(());
                }
            };
            let end = tokio::select! {
                end = process.reload_until_end((source, files), &mut self.commands, &mut shut_down) => end,
                Err(error) = waiting.serve() => return Err(error),
            };
            tokio::select! {
                () = process.drain(end, &mut shut_down) => Ok(()),
                never = self.commands.pass_on(end) => match never {},
            }
        });
        drop(local);
        // Exits without waiting for blocking tasks, such as a file read that hangs.
        self.runtime.shutdown_background();
        ended
    }
}
