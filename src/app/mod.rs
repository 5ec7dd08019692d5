//! Life of the process: start, reload, drain.
//!
//! [`run`] starts the workers and the admin port ([`start`]), applies changed configurations ([`reload`]) until a signal
//! requests shutdown, and then waits for in-flight requests (`drain.rs`). Each [`worker`](tollgate_proxy::worker) is a
//! thread with its own runtime; the main thread runs everything else.

mod admin_listeners;
pub mod descriptors;
mod drain;
mod process;
mod reader;
pub mod reload;
mod signals;
pub mod start;

use tollgate_config::Loaded;

use self::process::Process;
use self::reload::Source;
use self::signals::Signals;
use self::start::StartError;

/// Runs the gateway until a signal ends it. `source` is read again on a reload.
///
/// # Errors
/// The gateway cannot start. It then listens on no address.
pub fn run(source: &Source, loaded: Loaded) -> Result<(), StartError> {
    signals::exit_after_second_shut_down()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    let ended = local.block_on(&runtime, async {
        let mut signals = Signals::new()?;
        let mut process = Process::start(source, loaded).await?;
        process.reload_until_shutdown(source, &mut signals).await;
        process.drain(&mut signals).await;
        Ok(())
    });
    drop(local);
    // Exits without waiting for blocking tasks, such as a file read that hangs.
    runtime.shutdown_background();
    ended
}
