//! Messages to the service manager (sd_notify(3)). Without `NOTIFY_SOCKET` they have no effect.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, SockAddr, Socket, Type};

/// Time within which a worker that runs counts a beat, on a busy machine too.
const LONGEST_BEAT: Duration = Duration::from_secs(5);

/// Counts of the seconds in which the workers run.
pub(super) type Beats = Vec<Arc<AtomicU64>>;

/// Reports that the gateway accepts connections, or has reloaded its configuration.
pub(super) fn ready() {
    send("READY=1\n");
}

/// Reports that a reload begins. [`ready`] ends it.
pub(super) fn reloading() {
    let now = clock_gettime(ClockId::Monotonic);
    let microseconds = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec / 1_000);
    send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}\n"));
}

/// Reports a shutdown.
pub(super) fn stopping() {
    send("STOPPING=1\n");
}

/// Reports the process that serves from now on.
pub(super) fn main_process(pid: u32) {
    send(&format!("MAINPID={pid}\nREADY=1\n"));
}

/// Notifies the watchdog twice in the interval that the service manager asks for, while the main thread and every worker
/// run.
pub(super) async fn notify_watchdog(beats: Beats) {
    let Some(interval) = watchdog_interval(&|name| std::env::var(name).ok()) else { return };
    let timeout = interval.max(LONGEST_BEAT);
    let mut last: Vec<_> = beats.iter().map(|_| (0, Instant::now())).collect();
    loop {
        tokio::time::sleep(interval / 2).await;
        for (beat, last) in beats.iter().zip(&mut last) {
            let count = beat.load(Relaxed);
            if count != last.0 {
                *last = (count, Instant::now());
            }
        }
        match last.iter().position(|(_, at)| at.elapsed() > timeout) {
            None => send("WATCHDOG=1\n"),
            Some(worker) => tracing::error!(worker, ?timeout, "worker does not run: watchdog not notified"),
        }
    }
}

/// Returns the interval in which the watchdog of this process must be notified.
fn watchdog_interval(env: &dyn Fn(&str) -> Option<String>) -> Option<Duration> {
    let is_other = env("WATCHDOG_PID").is_some_and(|pid| pid != std::process::id().to_string());
    let microseconds = env("WATCHDOG_USEC")?.parse().ok().filter(|interval| *interval > 0)?;
    (!is_other).then(|| Duration::from_micros(microseconds))
}

fn send(message: &str) {
    if let Some(address) = std::env::var_os("NOTIFY_SOCKET").filter(|address| !address.is_empty())
        && let Err(error) = send_to(&address, message)
    {
        tracing::warn!(%error, "service manager not notified: `NOTIFY_SOCKET` has no receiver");
    }
}

/// Sends a datagram to a path, or to a name in the abstract namespace, which begins with `@`. Never blocks.
fn send_to(address: &OsStr, message: &str) -> io::Result<()> {
    let mut name = address.as_bytes().to_vec();
    if name[0] == b'@' {
        name[0] = 0;
    }
    let socket = Socket::new(Domain::UNIX, Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    socket.send_to(message.as_bytes(), &SockAddr::unix(OsStr::from_bytes(&name))?).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_watchdog_of_another_process_is_not_notified() {
        let interval = |usec: &str, pid: &str| {
            let (usec, pid) = (usec.to_owned(), pid.to_owned());
            watchdog_interval(&move |name| {
                let value = if name == "WATCHDOG_USEC" { &usec } else { &pid };
                (!value.is_empty()).then(|| value.clone())
            })
        };
        let process_id = std::process::id().to_string();
        assert_eq!(interval("2000000", &process_id), Some(Duration::from_secs(2)));
        assert_eq!(interval("2000000", ""), Some(Duration::from_secs(2)));
        for (usec, pid) in [("2000000", "1"), ("", ""), ("0", ""), ("-1", ""), ("soon", "")] {
            assert_eq!(interval(usec, pid), None, "{usec} of {pid}");
        }
    }

    #[test]
    fn a_receiver_that_does_not_read_blocks_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let receiver = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let sent = (0..100_000).take_while(|_| send_to(path.as_os_str(), "READY=1\n").is_ok()).count();
        assert!((1..100_000).contains(&sent), "{sent}");
        drop(receiver);
        assert!(send_to(path.as_os_str(), "READY=1\n").is_err());
    }
}
