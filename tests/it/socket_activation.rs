//! Listening sockets that a service manager passes (sd_listen_fds(3)).

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use command_fds::{CommandFdExt as _, FdMapping};
use tollgate_test_support::Certificates;

use crate::lifecycle::yaml;
use crate::support::client::Connection;
use crate::support::clients::Slow;
use crate::support::eventually;
use crate::support::gateway::{Gateway, TOLLGATE, signal};
use crate::tls_sites::with_http;

const ECHO: &str =
    "server: {workers: 2}\naccess-log: {output: off}\nroutes: [{id: a, uri: 'echo:', predicates: [Path=/**]}]\n";

fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

/// A service manager: it starts gateways on sockets that it keeps.
struct Unit {
    sockets: Vec<(&'static str, OwnedFd)>,
    folder: tempfile::TempDir,
}

impl Unit {
    fn new(sockets: Vec<(&'static str, OwnedFd)>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tollgate.yaml"), ECHO).unwrap();
        Self { sockets, folder }
    }

    /// Returns the command that a unit runs, after the assignments `environment` of a shell.
    fn command(&self, environment: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{environment} exec \"$0\" \"$@\""), TOLLGATE, "--config"]);
        command
            .arg(self.folder.path().join("tollgate.yaml"))
            .env("SERVER_PORT", "0")
            .env("MANAGEMENT_SERVER_PORT", "0");
        let names: Vec<_> = self.sockets.iter().map(|(name, _)| *name).collect();
        command.env("LISTEN_FDS", self.sockets.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        let mapping = |(number, (_, socket)): (i32, &(&str, OwnedFd))| FdMapping {
            parent_fd: socket.try_clone().unwrap(),
            child_fd: number,
        };
        command.fd_mappings((3..).zip(&self.sockets).map(mapping).collect()).unwrap();
        command
    }

    fn start(&self) -> Gateway {
        Gateway::from_command(self.command("LISTEN_PID=$$"))
    }

    /// Runs a gateway that cannot start. Returns its message.
    fn fails(&self, environment: &str) -> String {
        let mut command = self.command(&format!("LISTEN_PID=$$ {environment}"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        text
    }
}

#[test]
fn inherited_sockets_serve_traffic_and_the_admin_port_and_outlive_the_process() {
    let (first, second, admin) = (listener(), listener(), listener());
    let addresses = [&first, &second].map(|socket| socket.local_addr().unwrap());
    let admin_address = admin.local_addr().unwrap();
    let unit = Unit::new(vec![("tollgate.socket", first.into()), ("admin", admin.into()), ("other", second.into())]);
    let mut gateway = unit.start();
    assert_eq!((gateway.address, gateway.admin), (addresses[0], admin_address));
    for address in addresses {
        assert_eq!(crate::support::client::get(address, "/a").status, 200);
    }
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    // It waits in the queue of the socket until a gateway is started.
    let mut waiting = Connection::open(addresses[0]);
    waiting.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let gateway = unit.start();
    assert_eq!(waiting.response().expect("a response").status, 200);
    assert_eq!(gateway.admin("/health/ready").status, 200);
}

/// The file says that the admin port is on loopback, where no token is asked.
#[test]
fn an_inherited_socket_on_all_addresses_asks_for_a_token() {
    let admin = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = admin.local_addr().unwrap().port();
    let unit = Unit::new(vec![("tollgate.socket", listener().into()), ("admin", admin.into())]);
    let gateway = unit.start();
    gateway.logged("every request to the admin port is refused");
    let mut client = Connection::open((Ipv4Addr::LOCALHOST, port).into());
    for (method, target) in [("GET", "/api/config"), ("POST", "/api/reload")] {
        assert_eq!(client.request(method, target, &[("Host", "localhost")], b"").status, 401, "{method} {target}");
    }
}

#[test]
fn a_kept_socket_of_the_admin_port_alone_is_not_compared_with_the_file() {
    let admin = listener();
    let address = admin.local_addr().unwrap();
    let unit = Unit::new(vec![("admin", admin.into())]);
    let mut command = unit.command("LISTEN_PID=$$");
    command.env("MANAGEMENT_SERVER_PORT", "1");
    let gateway = Gateway::from_command(command);
    assert_eq!(gateway.admin, address);
    assert_eq!(gateway.admin("/api/config").json()["needs-restart"], serde_json::json!([]));
    assert!(!gateway.log().contains("WARN"), "{}", gateway.log());
}

#[test]
fn restarts_of_a_unit_under_load_lose_no_request() {
    let slow = Slow::start();
    let socket = listener();
    let address = socket.local_addr().unwrap();
    let unit = Unit::new(vec![("tollgate.socket", socket.into())]);
    std::fs::write(unit.folder.path().join("tollgate.yaml"), yaml(&slow.upstream, "")).unwrap();
    let mut gateway = unit.start();
    slow.over_restarts(address, || {
        gateway.signal("TERM");
        assert_eq!(gateway.wait().code(), Some(0));
        gateway = unit.start();
    });
}

#[test]
fn a_unix_socket_serves_the_admin_port() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let socket = UnixListener::bind(&path).unwrap();
    let traffic = listener();
    let unit = Unit::new(vec![("admin", socket.into()), ("tollgate.socket", traffic.into())]);
    let mut gateway = unit.start();
    let (code, out, _) = crate::support::gateway::run(&["health", &format!("unix:{}", path.display())]);
    assert_eq!(code, Some(0), "{out}");
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    assert!(path.exists(), "the file belongs to the service manager");
}

#[test]
fn sockets_that_cannot_be_used_stop_the_start_with_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("file")).unwrap();
    let unix = UnixListener::bind(folder.path().join("unix")).unwrap();
    let accepting = listener();
    let connected = TcpStream::connect(accepting.local_addr().unwrap()).unwrap();
    let bound: OwnedFd = {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        socket.into()
    };
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let cases: [(&str, OwnedFd, &str); 6] = [
        ("file", file.try_clone().unwrap().into(), "not a socket"),
        ("admin", file.into(), "not a socket"),
        ("unix", unix.into(), "not a valid tcp socket"),
        ("udp", udp.into(), "not a valid tcp socket"),
        ("connected", connected.into(), "does not listen"),
        ("admin", bound, "does not listen"),
    ];
    for (name, socket, message) in cases {
        let text = Unit::new(vec![("first", listener().into()), (name, socket)]).fails("");
        let place = format!("cannot use the inherited socket 2 of LISTEN_FDS (`{name}`)");
        assert!(text.contains(&place) && text.contains(message) && text.contains("ListenStream="), "{name}: {text}");
    }
    let unix = |name: &str| OwnedFd::from(UnixListener::bind(folder.path().join(name)).unwrap());
    let tcp = || OwnedFd::from(listener());
    for (kind, [first, second]) in [("TCP", [tcp(), tcp()]), ("Unix", [unix("first"), unix("second")])] {
        let text = Unit::new(vec![("x", listener().into()), ("admin", first), ("admin", second)]).fails("");
        let message = "cannot use the inherited socket 3 of LISTEN_FDS (`admin`): the admin port has another";
        assert!(text.contains(&format!("{message} {kind} socket already")), "{text}");
    }
    let unit = Unit::new(vec![("first", listener().into())]);
    assert!(unit.fails("LISTEN_FDS=2").contains("inherited socket 2"), "a descriptor that is not open");
    for count in ["many", "-1", "1025", "1e3"] {
        let text = unit.fails(&format!("LISTEN_FDS={count}"));
        assert!(text.contains("LISTEN_FDS must be a number from 0 to 1024"), "{text}");
    }
}

#[test]
fn sockets_of_another_process_are_ignored() {
    let socket = listener();
    let address = socket.local_addr().unwrap();
    let unit = Unit::new(vec![("tollgate.socket", socket.into())]);
    let gateway = Gateway::from_command(unit.command("LISTEN_PID=1"));
    assert_ne!(gateway.address, address);
    assert_eq!(gateway.get("/a").status, 200);
}

#[test]
fn a_kept_socket_without_tls_outlives_the_process_beside_a_port_of_its_own_for_tls() {
    let certificates = Certificates::new();
    let http = listener();
    let address = http.local_addr().unwrap();
    let unit = Unit::new(vec![("http", http.into())]);
    std::fs::write(unit.folder.path().join("tollgate.yaml"), with_http(&certificates, "{}")).unwrap();
    let redirected = || crate::support::client::get(address, "/a").status;
    let mut gateway = unit.start();
    assert_eq!(redirected(), 308);
    gateway.signal("TERM");
    assert_eq!(gateway.wait().code(), Some(0));
    // It waits in the queue of the socket until a gateway is started.
    let mut waiting = Connection::open(address);
    waiting.send("GET /a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut gateway = unit.start();
    assert_eq!(waiting.response().expect("a response").status, 308);
    gateway.hand_over();
    assert_eq!(redirected(), 308);
    gateway.wait();
    let next = gateway.processes().pop().unwrap();
    signal(next, "TERM");
    eventually("the new process ends", || !Path::new(&format!("/proc/{next}/fd/0")).exists());
    let _gateway = unit.start();
    assert_eq!(redirected(), 308);
}
