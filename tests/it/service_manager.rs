//! Messages to a service manager (sd_notify(3)).

use std::os::unix::net::UnixDatagram;
use std::path::Path;

use rustix::time::{ClockId, clock_gettime};

use crate::support::PATIENCE;
use crate::support::gateway::Gateway;

const ECHO: &str = "routes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";

/// Receiver of messages.
struct Manager(UnixDatagram);

impl Manager {
    fn bind(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    fn receive(&self) -> String {
        let mut buffer = [0; 1024];
        let length = self.0.recv(&mut buffer).expect("a message");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// Returns the next message that is not for the watchdog.
    fn state(&self) -> String {
        std::iter::repeat_with(|| self.receive()).find(|message| message != "WATCHDOG=1\n").unwrap()
    }
}

#[test]
fn a_service_manager_is_told_of_start_reload_and_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = Manager::bind(&path);
    let mut gateway = Gateway::start_with(ECHO, &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    assert_eq!(manager.receive(), "READY=1\n", "without a watchdog");
    assert_eq!(gateway.admin("/health/ready").status, 200);
    for broken in [false, true] {
        let microseconds = || {
            let now = clock_gettime(ClockId::Monotonic);
            u64::try_from(now.tv_sec * 1_000_000 + now.tv_nsec / 1_000).unwrap()
        };
        let before = microseconds();
        if broken {
            std::fs::write(gateway.config(), "routes: [").unwrap();
        }
        gateway.signal("HUP");
        let reloading = manager.receive();
        let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap_or_else(|| panic!("{reloading}"));
        let since: u64 = since.trim_end().parse().unwrap();
        assert!((before..=microseconds()).contains(&since), "{since} from {before}");
        assert_eq!(manager.receive(), "READY=1\n", "broken: {broken}");
    }
    gateway.signal("TERM");
    assert_eq!(manager.receive(), "STOPPING=1\n");
    assert_eq!(gateway.wait().code(), Some(0));
}

#[test]
fn the_watchdog_is_notified_while_the_workers_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = Manager::bind(&path);
    let environment = [("NOTIFY_SOCKET", path.to_str().unwrap()), ("WATCHDOG_USEC", "500000")];
    let gateway = Gateway::start_with(ECHO, &environment);
    assert_eq!(manager.state(), "READY=1\n");
    for _ in 0..3 {
        assert_eq!(manager.receive(), "WATCHDOG=1\n");
    }
    gateway.signal("TERM");
    assert_eq!(manager.state(), "STOPPING=1\n");
}

#[test]
fn a_service_manager_that_has_gone_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let mut gateway = Gateway::start_with(ECHO, &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    gateway.logged("service manager not notified");
    assert_eq!(gateway.get("/a").status, 200);
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
}
