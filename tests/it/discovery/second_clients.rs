//! Clients of registries that others have written register with the stand-ins. `tests/run` installs them, or leaves these
//! tests out and says so.

use std::path::Path;
use std::process::{Command, Stdio};

use tollgate_test_support::registry::{ConsulServer, EurekaServer, NacosServer};

use super::*;

/// Runs a script in `clients.py` until its end, with the addresses of the registry and of an upstream.
fn client(script: &str, registry: std::net::SocketAddr, upstream: std::net::SocketAddr) -> std::process::Child {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/registry-clients/bin/python");
    let python = std::env::var_os("TOLLGATE_REGISTRY_CLIENTS").map_or(python, Into::into);
    let mut command = Command::new(&python);
    command.arg(root.join("tests/it/discovery/clients.py")).args([
        script,
        &registry.to_string(),
        &upstream.to_string(),
    ]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}; `tests/run` installs the clients", python.display()))
}

/// Waits for the endpoint while the client runs, and for its end after the client has left in order.
fn comes_and_goes(gateway: &Gateway, mut client: std::process::Child) {
    becomes(gateway, "/orders/x", &[("a", 2)]);
    // The client leaves when its standard input ends.
    drop(client.stdin.take());
    becomes(gateway, "/orders/x", &[("503", 1)]);
    assert!(client.wait().unwrap().success());
}

#[test]
fn python_consul2_registers() {
    let (a, consul) = (named("a"), ConsulServer::start());
    let gateway =
        gateway(&format!("spring.cloud.consul: {{host: 127.0.0.1, port: {}}}", consul.address.port()), &["orders"]);
    comes_and_goes(&gateway, client("consul", consul.address, a.address));
}

#[test]
fn py_eureka_client_registers() {
    let (a, eureka) = (named("a"), EurekaServer::start());
    let text = format!(
        "eureka.client: {{service-url: {{defaultZone: '{}'}}, registry-fetch-interval-seconds: 1}}",
        eureka.url()
    );
    let gateway = gateway(&text, &["orders"]);
    comes_and_goes(&gateway, client("eureka", eureka.address, a.address));
}

#[test]
fn nacos_sdk_python_registers() {
    let (a, nacos) = (named("a"), NacosServer::start());
    let text = format!("spring.cloud.nacos.discovery: {{server-addr: '{}', poll-interval: 100ms}}", nacos.address);
    let gateway = gateway(&text, &["orders"]);
    comes_and_goes(&gateway, client("nacos", nacos.address, a.address));
}
