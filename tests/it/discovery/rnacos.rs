//! R-Nacos, a server with the API of Nacos that others have written. It is the program in `TOLLGATE_RNACOS`, or `rnacos` on
//! the `PATH`. `tests/run` leaves this test out without it, and says so.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tollgate_test_support::Port;

use super::*;
use crate::support::client::{Connection, get};

const PASSWORD: &str = "n@cos&1";

/// R-Nacos that requires a login. Killed on drop.
struct RNacos {
    address: SocketAddr,
    ports: [Port; 3],
    folder: tempfile::TempDir,
    process: Child,
}

impl RNacos {
    fn start() -> Self {
        let ports = [Port::claim(), Port::claim(), Port::claim()];
        let folder = tempfile::tempdir().unwrap();
        let process = Self::launch(&ports, &folder);
        let server = Self { address: ports[0].address(), ports, folder, process };
        server.wait();
        server
    }

    fn launch(ports: &[Port; 3], folder: &tempfile::TempDir) -> Child {
        let program = std::env::var_os("TOLLGATE_RNACOS").unwrap_or_else(|| "rnacos".into());
        let mut command = Command::new(&program);
        for (name, port) in ["HTTP", "GRPC", "HTTP_CONSOLE"].iter().zip(ports) {
            command.env(format!("RNACOS_{name}_PORT"), port.number.to_string());
        }
        command
            .envs([("RNACOS_SDK_HOST", "127.0.0.1"), ("RNACOS_ENABLE_OPEN_API_AUTH", "true")])
            .envs([("RNACOS_INIT_ADMIN_USERNAME", "nacos"), ("RNACOS_INIT_ADMIN_PASSWORD", PASSWORD)])
            .env("RNACOS_NAMING_HEALTH_TIMEOUT_SECOND", "600")
            .env("RNACOS_DATA_DIR", folder.path())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; TOLLGATE_RNACOS names it", program.display()))
    }

    /// Waits until the server knows its user.
    fn wait(&self) {
        eventually("the server accepts a login", || self.token().is_some());
    }

    fn token(&self) -> Option<String> {
        let mut connection = Connection::try_open(self.address).ok()?;
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        let login = b"username=nacos&password=n%40cos%261";
        let answer = connection.try_request("POST", "/nacos/v1/auth/login", &form, login)?;
        (answer.status == 200).then(|| answer.json()["accessToken"].as_str().unwrap().to_owned())
    }

    /// Sends a request about an instance of `orders`.
    fn instance(&self, method: &str, upstream: SocketAddr, parameters: &str) {
        let token = self.token().unwrap();
        let place = format!("serviceName=orders&ip={}&port={}&accessToken={token}", upstream.ip(), upstream.port());
        let mut connection = Connection::open(self.address);
        let target = format!("/nacos/v1/ns/instance?{place}&{parameters}");
        let answer = connection.request(method, &target, &[], b"");
        assert_eq!((answer.status, answer.text().as_str()), (200, "ok"), "{target}");
    }

    /// Returns the instances of a service.
    fn list(&self, parameters: &str) -> Vec<Value> {
        let target = format!("/nacos/v1/ns/instance/list?accessToken={}&{parameters}", self.token().unwrap());
        get(self.address, &target).json()["hosts"].as_array().unwrap().clone()
    }

    /// Ends the server at once.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for RNacos {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

const PLACE: &str = "namespaceId=dev&groupName=SHOP";

#[test]
#[ignore = "needs R-Nacos"]
fn endpoints_follow_r_nacos_and_the_gateway_registers() {
    let (a, b) = (named("a"), named("b"));
    let mut nacos = RNacos::start();
    nacos.instance("POST", a.address, &format!("{PLACE}&clusterName=HZ"));
    nacos.instance("POST", b.address, &format!("{PLACE}&clusterName=SH"));
    nacos.instance("POST", b.address, "namespaceId=dev&clusterName=HZ");
    nacos.instance("POST", b.address, "groupName=SHOP&clusterName=HZ");
    let text = format!(
        "spring.application.name: Shop-Edge\nspring.cloud.nacos.discovery: {{server-addr: '{}', poll-interval: 100ms, \
         namespace: dev, group: SHOP, clusters: HZ, username: nacos, password: '{PASSWORD}', register-enabled: true, \
         heart-beat-interval: 200, heart-beat-timeout: 1000, metadata: {{team: x}}}}\n\
         spring.cloud.gateway.discovery.locator.enabled: true",
        nacos.address
    );
    let mut gateway = gateway(&text, &["orders", "missing"]);
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    assert_eq!(gateway.get("/missing/x").status, 503);
    let edge = format!("{PLACE}&serviceName=Shop-Edge");
    let is_registered = |nacos: &RNacos| {
        let list = nacos.list(&edge);
        list.first().is_some_and(|edge| edge["metadata"]["team"] == "x" && edge["port"] == gateway.address.port())
    };
    eventually("the gateway is registered", || is_registered(&nacos));
    nacos.instance("POST", b.address, &format!("{PLACE}&clusterName=HZ&weight=3"));
    becomes(&gateway, "/orders/x", &[("a", 2), ("b", 6)]);
    nacos.instance("PUT", a.address, &format!("{PLACE}&clusterName=HZ&enabled=false"));
    // So many that the weights alone do not cause it.
    becomes(&gateway, "/orders/x", &[("b", 8)]);
    nacos.kill();
    gateway.logged("registry request failed; known endpoints are kept");
    assert_eq!(shares(&gateway, "/orders/x", 2), [("b".to_owned(), 2)].into());
    nacos.folder = tempfile::tempdir().unwrap();
    nacos.process = RNacos::launch(&nacos.ports, &nacos.folder);
    nacos.wait();
    nacos.instance("POST", a.address, &format!("{PLACE}&clusterName=HZ"));
    becomes(&gateway, "/orders/x", &[("a", 2)]);
    eventually("the gateway is registered again, as it was", || is_registered(&nacos));
    nacos.instance("DELETE", a.address, &format!("{PLACE}&clusterName=HZ"));
    becomes(&gateway, "/orders/x", &[("503", 1)]);
    gateway.signal("TERM");
    gateway.wait();
    assert!(nacos.list(&edge).is_empty());
    assert!(!gateway.log().contains(PASSWORD), "{}", gateway.log());
}
