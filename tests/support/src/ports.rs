//! Free ports for servers with a configured address.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Range below the ephemeral ports, with room for a cluster bus port above each.
const FIRST: u32 = 12_000;
const COUNT: u32 = 10_000;

/// Offset of the cluster bus port, as in Redis.
const BUS_ABOVE: u16 = 10_000;

/// Free loopback port, reserved for one test by the UDP socket of the same number. Checking TCP alone would let two
/// processes find the same port free before either listens.
#[derive(Debug)]
pub struct Port {
    /// Port number.
    pub number: u16,
    _claims: Vec<UdpSocket>,
}

impl Port {
    /// Reserves a port.
    pub fn claim() -> Self {
        Self::claim_with(&[0])
    }

    /// Reserves a port with a free cluster bus port.
    pub fn claim_with_bus() -> Self {
        Self::claim_with(&[0, BUS_ABOVE])
    }

    fn claim_with(offsets: &[u16]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            // Each process starts at another port to avoid conflicts.
            let turn = std::process::id().wrapping_mul(31).wrapping_add(NEXT.fetch_add(1, SeqCst));
            let number = u16::try_from(FIRST + turn % COUNT).unwrap();
            let claims = offsets.iter().map_while(|offset| claim(number + offset)).collect::<Vec<_>>();
            if claims.len() == offsets.len() {
                return Self { number, _claims: claims };
            }
        }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

fn claim(number: u16) -> Option<UdpSocket> {
    let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok().map(|_| claim)
}

/// Returns an unused address, reserved until this process ends.
pub fn free_address() -> SocketAddr {
    static KEPT: Mutex<Vec<Port>> = Mutex::new(Vec::new());
    let port = Port::claim();
    let address = port.address();
    KEPT.lock().unwrap().push(port);
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_port_is_exclusive() {
        let port = Port::claim_with_bus();
        assert!(claim(port.number).is_none() && claim(port.number + BUS_ABOVE).is_none());
        assert!(TcpListener::bind(port.address()).is_ok(), "the owner may listen");
        let number = port.number;
        drop(port);
        assert!(claim(number).is_some());
    }
}
