//! Values that Spring computes: random ones (`${random.int(10)}`), and those of the machine, `${spring.cloud.client.ip-address}` and
//! `${spring.cloud.client.hostname}`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use tollgate_document::yaml::key::canonical;

/// Returns one of Spring's random values: `random.value`, `random.uuid`, `random.int` and `random.long`, the latter two with `(max)` or `[min,max]`,
/// `max` itself excluded.
pub fn random(name: &str) -> Option<String> {
    let kind = name.strip_prefix("random.")?;
    let (kind, range) = kind.split_at(kind.find(['(', '[']).unwrap_or(kind.len()));
    let bounds: Vec<i64> = range
        .trim_matches(['(', ')', '[', ']'])
        .split(',')
        .filter(|bound| !bound.is_empty())
        .map(|bound| bound.trim().parse().ok())
        .collect::<Option<_>>()?;
    let (least, most) = match (kind, bounds.as_slice()) {
        ("value", []) => return Some(format!("{:032x}", fastrand::u128(..))),
        ("uuid", []) => {
            // Version 4 (RFC 9562 §5.4): six bits say so.
            let bits = fastrand::u128(..) & !(0xF << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
            let hex = format!("{bits:032x}");
            return Some([&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"));
        }
        ("int", []) => (i64::from(i32::MIN), i64::from(i32::MAX)),
        ("long", []) => (i64::MIN, i64::MAX),
        ("int" | "long", [max]) => (0, *max),
        ("int" | "long", [min, max]) => (*min, *max),
        _ => return None,
    };
    (least < most).then(|| fastrand::i64(least..most).to_string())
}

/// Pairs of a local and a remote address. Connecting a UDP socket to the remote one selects the source address of the default
/// route, and sends nothing. The remote addresses are reserved for documentation (RFC 5737, RFC 3849).
const ROUTE_PROBES: [(&str, &str); 2] = [("0.0.0.0:0", "192.0.2.1:9"), ("[::]:0", "[2001:db8::1]:9")];
/// Files with the name of the machine.
const NAME_FILES: [&str; 2] = ["/proc/sys/kernel/hostname", "/etc/hostname"];

/// Returns the address or the name of the machine for `spring.cloud.client.ip-address` and `.hostname`.
pub fn of_machine(name: &str) -> Option<String> {
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
    fn random_values_have_their_type_and_range() {
        for _ in 0..100 {
            let within = |name: &str| random(name).unwrap().parse::<i64>().unwrap();
            assert!((0..7).contains(&within("random.int(7)")) && (3..5).contains(&within("random.long[3,5]")));
            assert!(i32::try_from(within("random.int")).is_ok());
        }
        let uuid = random("random.uuid").unwrap();
        assert!(uuid.len() == 36 && &uuid[14..15] == "4" && "89ab".contains(&uuid[19..20]), "{uuid}");
        assert_eq!(random("random.value").unwrap().len(), 32);
        for name in
            ["random.int(0)", "random.int[5,5]", "random.int(x)", "random.colour", "randomness", "random.uuid(3)"]
        {
            assert_eq!(random(name), None, "{name}");
        }
    }

    #[test]
    fn the_machine_has_an_address_and_a_name() {
        for name in ["ip-address", "ipAddress"] {
            let address: IpAddr = of_machine(&format!("spring.cloud.client.{name}")).unwrap().parse().unwrap();
            assert!(!address.is_unspecified());
        }
        assert!(!of_machine("spring.cloud.client.hostname").unwrap().contains(char::is_whitespace));
        assert_eq!(of_machine("spring.cloud.client.port"), None);
        assert_eq!(of_machine("client.hostname"), None);
    }
}
