//! HAProxy before the gateway.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tollgate_test_support::Certificates;

use super::{ROUTES, get, open_from, received};
use crate::access_log::lines;
use crate::support::client::Connection;
use crate::support::gateway::Gateway;
use crate::support::{eventually, free_address};

/// HAProxy in TCP mode; killed when dropped.
struct Balancer {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Balancer {
    /// Starts HAProxy before `gateway`; `options` are those of its server, and `bind` those of its listener.
    fn start(gateway: &Gateway, options: &str, bind: &str) -> Self {
        let (folder, address) = (tempfile::tempdir().unwrap(), free_address());
        let path = folder.path().join("haproxy.cfg");
        let text = format!(
            "defaults\n  mode tcp\n  timeout connect 10s\n  timeout client 30s\n  timeout server 30s\n\
             listen gateway\n  bind {address} {bind}\n  unique-id-format id-%[src]\n  \
             server gateway {} {options}\n",
            gateway.address
        );
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new("haproxy");
        command.args(["-db", "-f"]).arg(&path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let balancer = Self { child: command.spawn().expect("haproxy"), address, _folder: folder };
        eventually("haproxy listens", || Connection::try_open(address).is_ok());
        balancer
    }

    /// Returns a request's `X-Forwarded-For` from a client of this address.
    fn forwarded_from(&self, client: [u8; 4]) -> String {
        received(&get(&mut open_from(Ipv4Addr::from(client), self.address)), "x-forwarded-for")
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a gateway that trusts every HAProxy of this host; `more` are further keys of the file.
fn gateway(more: &str) -> Gateway {
    let server = "server: {address: 127.0.0.1, workers: 1, proxy-protocol: {trusted: [127.0.0.1]}}";
    Gateway::start(&format!("{server}\n{ROUTES}{more}"))
}

#[test]
fn haproxy_names_its_clients_in_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log");
    let gateway = gateway(&format!("access-log: {{output: '{}', format: json}}\n", log.display()));
    let certificates = Certificates::new();
    let pem = folder.path().join("server.pem");
    let read = |path| std::fs::read_to_string(path).unwrap();
    std::fs::write(&pem, read(certificates.server()) + &read(certificates.server_key())).unwrap();
    for (number, options) in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2 proxy-v2-options crc32c",
        "send-proxy-v2 proxy-v2-options unique-id,crc32c,authority",
    ]
    .iter()
    .enumerate()
    {
        let balancer = Balancer::start(&gateway, options, "");
        assert_eq!(balancer.forwarded_from([127, 0, 0, 7]), "127.0.0.7", "{options}");
        assert_eq!(balancer.forwarded_from([127, 0, 0, 8]), "127.0.0.8", "{options}");
        let line: serde_json::Value = serde_json::from_str(&lines(&log, 2 * number + 2)[2 * number]).unwrap();
        let id = options.contains("unique-id").then_some("id-127.0.0.7");
        assert_eq!((line["client"].as_str(), line["unique_id"].as_str()), (Some("127.0.0.7"), id), "{options}");
    }
    // TLS ends at HAProxy, which adds fields about it.
    let options = "send-proxy-v2-ssl-cn proxy-v2-options ssl,unique-id,crc32c,cert-cn,ssl-cipher,cert-key,cert-sig";
    let balancer = Balancer::start(&gateway, options, &format!("ssl crt {}", pem.display()));
    let mut client = crate::tls::open(balancer.address, &certificates);
    std::io::Write::write_all(&mut client, b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let head = crate::tls::until(&mut client, "\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(crate::tls::until(&mut client, "bodyBytes").contains("\"x-forwarded-for\": \"127.0.0.1\""));
    assert_eq!(gateway.metric("tollgate_failed_proxy_headers_total", &[]), 0.0);
}

#[test]
fn health_checks_of_haproxy_are_no_failures() {
    let gateway = gateway("");
    for options in ["send-proxy", "send-proxy-v2", "send-proxy-v2 check-send-proxy"] {
        let check = "\n  option httpchk GET /check";
        let balancer = Balancer::start(&gateway, &format!("{options} check inter 20ms"), check);
        let checked = || gateway.metric("spring_cloud_gateway_requests_seconds_count", &["routeId=\"a\""]);
        let before = checked();
        eventually("checks were served", || checked() >= before + 3.0);
        assert_eq!(balancer.forwarded_from([127, 0, 0, 7]), "127.0.0.7", "the gateway is up for {options}");
    }
    assert_eq!(gateway.metric("tollgate_failed_proxy_headers_total", &[]), 0.0);
}
