//! Sockets to listen on: one a worker, on one address.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Socket, Type};

/// Connections that the kernel holds for us while we are busy.
const BACKLOG: i32 = 4096;

/// Binds `count` sockets to `address`, among which the kernel spreads new connections (`SO_REUSEPORT`).
///
/// A plain bind comes first: `SO_REUSEPORT` alone would join another gateway of the same user that already listens
/// there, and the port in use would go unnoticed.
///
/// # Errors
/// The address is in use, not ours, or not allowed.
pub fn bind(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    let first = socket(address)?;
    first.bind(&address.into())?;
    if count <= 1 {
        first.listen(BACKLOG)?;
        return Ok(vec![first.into()]);
    }
    let address = first.local_addr()?.as_socket().unwrap_or(address);
    drop(first);
    (0..count)
        .map(|_| {
            let socket = socket(address)?;
            socket.set_reuse_port(true)?;
            socket.bind(&address.into())?;
            socket.listen(BACKLOG)?;
            Ok(socket.into())
        })
        .collect()
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?; // a restart need not wait for old connections' TIME_WAIT
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_port_in_use_is_noticed_even_by_many_workers() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listeners = bind(any, 3).unwrap();
        let taken = listeners[0].local_addr().unwrap();
        assert!(listeners.iter().all(|listener| listener.local_addr().unwrap() == taken));
        for count in [1, 3] {
            assert_eq!(bind(taken, count).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
    }
}
