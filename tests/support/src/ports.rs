//! Ports for servers that are told where to listen.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Lies below the ports that the system hands out, with room for a cluster's second port above each.
const FIRST: u32 = 12_000;
const COUNT: u32 = 10_000;

/// Between a cluster node's port and the one on which nodes talk to each other, as Redis has it.
const BUS_ABOVE: u16 = 10_000;

/// A loopback port that nobody listens on and that no other test is given meanwhile: whoever holds the UDP socket of
/// the same number has it, since processes that look at TCP alone may both find it free before either listens.
#[derive(Debug)]
pub struct Port {
    /// Its number.
    pub number: u16,
    _claims: Vec<UdpSocket>,
}

impl Port {
    /// One port.
    pub fn claim() -> Self {
        Self::claim_with(&[0])
    }

    /// One whose cluster bus port is free as well.
    pub fn claim_with_bus() -> Self {
        Self::claim_with(&[0, BUS_ABOVE])
    }

    fn claim_with(offsets: &[u16]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            // Each process starts elsewhere, so that few meet.
            let turn = std::process::id().wrapping_mul(31).wrapping_add(NEXT.fetch_add(1, SeqCst));
            let number = u16::try_from(FIRST + turn % COUNT).unwrap();
            let claims = offsets.iter().map_while(|offset| claim(number + offset)).collect::<Vec<_>>();
            if claims.len() == offsets.len() {
                return Self { number, _claims: claims };
            }
        }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

fn claim(number: u16) -> Option<UdpSocket> {
    let claim = UdpSocket::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok().map(|_| claim)
}

/// An address that nobody listens on, kept from other tests for as long as this process lives.
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
    fn a_claimed_port_is_nobody_elses() {
        let port = Port::claim_with_bus();
        assert!(claim(port.number).is_none() && claim(port.number + BUS_ABOVE).is_none());
        assert!(TcpListener::bind(port.address()).is_ok(), "but whoever has it may listen");
        let number = port.number;
        drop(port);
        assert!(claim(number).is_some());
    }
}
