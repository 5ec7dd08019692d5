//! Connections and HTTP/2 streams of each client, counted over all workers.
//!
//! A client is an IPv4 address, or the /64 network of an IPv6 address: one host usually has the whole network.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

/// Connected clients. The lock is taken when a connection opens and closes.
#[derive(Debug, Default)]
pub struct Clients(Mutex<HashMap<IpAddr, Client>>);

/// Entry of a client, removed with its last connection.
#[derive(Debug, Default)]
struct Client {
    connections: usize,
    streams: Arc<AtomicUsize>,
}

/// One connection of a client, counted until dropped.
#[derive(Debug)]
pub struct ClientConnection {
    clients: Arc<Clients>,
    address: IpAddr,
    streams: Arc<AtomicUsize>,
}

/// One HTTP/2 stream of a client, counted until dropped.
#[derive(Debug)]
pub struct ClientStreamGuard(Arc<AtomicUsize>);

impl Clients {
    /// Counts a connection from `ip`. Returns `None` if the client has `max` already.
    #[must_use]
    pub fn connect(self: &Arc<Self>, ip: IpAddr, max: usize) -> Option<ClientConnection> {
        let address = network(ip);
        let mut clients = self.0.lock();
        let client = clients.entry(address).or_default();
        if client.connections >= max.max(1) {
            return None;
        }
        client.connections += 1;
        Some(ClientConnection { clients: Arc::clone(self), address, streams: Arc::clone(&client.streams) })
    }
}

impl ClientConnection {
    /// Counts a stream. Returns `None` if the client has `max` already, over all its connections.
    #[must_use]
    pub fn stream(&self, max: usize) -> Option<ClientStreamGuard> {
        let guard = ClientStreamGuard(Arc::clone(&self.streams));
        // Dropped again if it is one too many.
        (self.streams.fetch_add(1, Relaxed) < max).then_some(()).map(|()| guard)
    }
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        if let Entry::Occupied(mut client) = self.clients.0.lock().entry(self.address) {
            client.get_mut().connections -= 1;
            if client.get().connections == 0 {
                client.remove();
            }
        }
    }
}

impl Drop for ClientStreamGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Returns the address by which a client is counted.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_ipv6_client_is_a_network_and_a_mapped_address_is_ipv4() {
        let network = |ip: &str| network(ip.parse().unwrap()).to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("2001:db8:1:2::9"), "2001:db8:1:2::");
        assert_eq!(network("2001:db8:1:3::9"), "2001:db8:1:3::");
        assert_eq!((network("192.0.2.7"), network("::ffff:192.0.2.7")), ("192.0.2.7".into(), "192.0.2.7".into()));
    }

    #[test]
    fn connections_and_streams_of_a_client_are_limited_together() {
        let clients = Arc::<Clients>::default();
        let [ip, other] = ["2001:db8::1", "2001:db8::2"].map(|ip| ip.parse().unwrap());
        let (one, two) = (clients.connect(ip, 2).unwrap(), clients.connect(other, 2).unwrap());
        assert!(clients.connect(ip, 2).is_none());
        assert!(clients.connect("192.0.2.1".parse().unwrap(), 2).is_some());
        let stream = one.stream(2).unwrap();
        let _second = two.stream(2).unwrap();
        assert!(one.stream(2).is_none() && two.stream(2).is_none());
        drop(stream);
        assert!(two.stream(2).is_some());
        drop((one, two));
        assert!(clients.0.lock().is_empty());
    }
}
