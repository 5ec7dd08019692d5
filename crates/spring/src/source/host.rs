//! Spring Cloud's properties of the machine: `${spring.cloud.client.ip-address}` and `${spring.cloud.client.hostname}`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use tollgate_document::yaml::key::canonical;

/// Pairs of a local and a remote address. Connecting a UDP socket to the remote one selects the source address of the default
/// route, and sends nothing. The remote addresses are reserved for documentation (RFC 5737, RFC 3849).
const ROUTE_PROBES: [(&str, &str); 2] = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
/// Files with the name of the machine.
const NAME_FILES: [&str; 2] = ["/proc/sys/kernel/hostname", "/etc/hostname"];

/// Returns the address or the name of the machine for `spring.cloud.client.ip-address` and `.hostname`.
pub fn value(name: &str) -> Option<String> {
    match canonical(name.strip_prefix("spring.cloud.client.")?).as_str() {
        "ipaddress" => Some(address().to_string()),
        "hostname" => Some(hostname().unwrap_or_else(|| "localhost".to_owned())),
        _ => None,
    }
}

/// Returns the address from which the machine reaches other networks, or else that of its name. The loopback address if it has no
/// other one.
#[expect(clippy::disallowed_methods, reason = "files are read on a thread of their own")]
fn address() -> IpAddr {
    let routed = ROUTE_PROBES.iter().find_map(|(from, to)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        usable(socket.local_addr().ok()?)
    });
    let of_hostname = || {
        let name = hostname()?;
        (name.as_str(), 0).to_socket_addrs().ok()?.find_map(usable)
    };
    routed.or_else(of_hostname).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn usable(address: SocketAddr) -> Option<IpAddr> {
    Some(address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

fn hostname() -> Option<String> {
    let of_files = NAME_FILES.iter().find_map(|path| fs::read_to_string(path).ok());
    let name = of_files.or_else(|| std::env::var("HOSTNAME").ok())?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_machine_has_an_address_and_a_name() {
        for name in ["ip-address", "ipAddress"] {
            let address: IpAddr = value(&format!("spring.cloud.client.{name}")).unwrap().parse().unwrap();
            assert!(!address.is_unspecified());
        }
        assert!(!value("spring.cloud.client.hostname").unwrap().contains(char::is_whitespace));
        assert_eq!(value("spring.cloud.client.port"), None);
        assert_eq!(value("client.hostname"), None);
    }
}
