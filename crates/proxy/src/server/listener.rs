//! Listening sockets: one for each worker, all on one address.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

#[cfg(target_os = "linux")]
use socket2::SockFilter;
use socket2::{Domain, Socket, Type};

use crate::http::sockets::KEEPALIVE;
use crate::server::accept::{Listener, ListenerKind};

/// Length of the kernel's accept queue.
const BACKLOG: i32 = 4096;

/// Binds `count` sockets to `address`. The kernel distributes new connections among them (`SO_REUSEPORT`).
///
/// A bind without `SO_REUSEPORT` comes first. With the option alone, a second gateway of the same user would join the
/// first one and the conflict would go unnoticed.
///
/// If `shares`, another process of the user may listen on the address too, and the kernel distributes connections among both.
/// The sockets get none until [`listen`] is called: a process that fails before has no connection to reset.
///
/// The address `::` takes connections of IPv4 as well, and only those on a host without IPv6.
///
/// # Errors
/// The address is in use, does not belong to this host, or requires privileges.
pub fn bind(address: SocketAddr, count: usize, shares: bool) -> io::Result<Vec<TcpListener>> {
    match bind_all(address, count, shares) {
        Err(error) if address.is_ipv6() && address.ip().is_unspecified() && lacks_ipv6(&error) => {
            bind_all((Ipv4Addr::UNSPECIFIED, address.port()).into(), count, shares)
        }
        bound => bound,
    }
}

/// Returns true if the system has no IPv6.
fn lacks_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || Socket::new(Domain::IPV6, Type::STREAM, None).is_err()
}

fn bind_all(mut address: SocketAddr, count: usize, shares: bool) -> io::Result<Vec<TcpListener>> {
    if !shares || address.port() == 0 {
        let first = socket(address)?;
        first.bind(&address.into())?;
        if count <= 1 && !shares {
            first.listen(BACKLOG)?;
            return Ok(vec![first.into()]);
        }
        address = first.local_addr()?.as_socket().unwrap_or(address);
    }
    (0..count)
        .map(|_| {
            let socket = socket(address)?;
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())?;
            if !shares {
                socket.listen(BACKLOG)?;
            }
            Ok(socket.into())
        })
        .collect()
}

/// Lets a bound socket get connections, unless it does so already.
///
/// # Errors
/// Another process has taken the address without sharing it.
pub fn listen(socket: &TcpListener) -> io::Result<()> {
    let socket = socket2::SockRef::from(socket);
    if socket.is_listener()? { Ok(()) } else { socket.listen(BACKLOG) }
}

/// Gives each of `workers` its listeners: every socket is served, and every worker has one. Workers may share a socket.
///
/// # Errors
/// The process is out of file descriptors.
pub fn spread(
    sockets: &[TcpListener],
    workers: usize,
    kind: ListenerKind,
) -> io::Result<Vec<Vec<Listener<TcpListener>>>> {
    let mut spread: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
    for (number, socket) in sockets.iter().cycle().take(workers.max(sockets.len())).enumerate() {
        spread[number % workers].push((socket.try_clone()?, kind));
    }
    Ok(spread)
}

/// Sets the options of a listening socket that the process inherited.
///
/// # Errors
/// The system refuses them.
pub fn adopt(socket: &TcpListener) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket2::SockRef::from(socket).set_tcp_keepalive(&KEEPALIVE)
}

/// Refuses new connections on `listener`, while handshakes that have begun complete.
///
/// Closing a listening socket resets the connections in its queue. A connection that completes between the last
/// `accept` and the close would be lost with its request. So a packet filter first drops each SYN. When the client
/// repeats the SYN, the port is closed and refuses it, and the client can safely try another address. Accepted
/// sockets inherit the filter, but receive no SYN.
///
/// # Errors
/// The system does not support socket filters.
#[cfg(target_os = "linux")]
pub fn refuse_new(listener: &impl std::os::fd::AsFd) -> io::Result<()> {
    // Classic BPF, over the TCP header (RFC 9293 §3.1): byte 13 holds the flags.
    const LOAD_BYTE: u16 = 0x30; // BPF_LD | BPF_B | BPF_ABS
    const AND: u16 = 0x54; // BPF_ALU | BPF_AND | BPF_K
    const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    const SYN: u32 = 0x02;
    const ACK: u32 = 0x10;
    socket2::SockRef::from(listener).attach_filter(&[
        SockFilter::new(LOAD_BYTE, 0, 0, 13),
        SockFilter::new(AND, 0, 0, SYN | ACK),
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ])
}

/// Not supported outside Linux.
///
/// # Errors
/// Always fails.
#[cfg(not(target_os = "linux"))]
pub fn refuse_new(_: &impl std::os::fd::AsFd) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?; // a restart need not wait for connections in TIME_WAIT
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_tcp_keepalive(&KEEPALIVE)?; // accepted sockets inherit it
    Ok(socket)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn every_socket_is_served_and_every_worker_has_one() {
        let sockets: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        for workers in 1..7 {
            let spread = spread(&sockets, workers, ListenerKind::default()).unwrap();
            assert!(spread.len() == workers && spread.iter().all(|of_one| !of_one.is_empty()), "{spread:?}");
            for socket in &sockets {
                let is_same =
                    |(other, _): &Listener<TcpListener>| other.local_addr().unwrap() == socket.local_addr().unwrap();
                assert!(spread.iter().flatten().any(is_same), "{workers}: {spread:?}");
            }
        }
    }

    #[test]
    fn a_port_in_use_is_an_error_for_any_number_of_workers() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listeners = bind(any, 3, false).unwrap();
        let taken = listeners[0].local_addr().unwrap();
        assert!(listeners.iter().all(|listener| listener.local_addr().unwrap() == taken));
        for count in [1, 3] {
            assert_eq!(bind(taken, count, false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[test]
    fn a_shared_port_has_room_for_another_process_that_shares_it() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        for count in [1, 3] {
            let shared = bind(any, count, true).unwrap();
            let address = shared[0].local_addr().unwrap();
            let refused = TcpStream::connect(address).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "it does not listen yet");
            shared.iter().for_each(|socket| listen(socket).unwrap());
            listen(&shared[0]).expect("it listens already");
            TcpStream::connect(address).unwrap();
            assert_eq!(bind(address, count, false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
            assert_eq!(bind(address, 2, true).unwrap().len(), 2);
        }
    }
}
