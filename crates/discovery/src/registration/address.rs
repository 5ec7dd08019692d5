//! Address of the gateway for a registry.

use std::io;
use std::net::IpAddr;

use tokio::net::{UdpSocket, lookup_host};

use tollgate_config::RegistryServer;

/// Returns the address of the listener. If it listens on all addresses, returns the source address of connections to the
/// first of `servers` that has a route.
pub(super) async fn gateway_address(listener: IpAddr, servers: &[RegistryServer]) -> io::Result<IpAddr> {
    if !listener.is_unspecified() {
        return Ok(listener);
    }
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    for server in servers {
        match source_address(server).await {
            Ok(address) => return Ok(address),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

async fn source_address(server: &RegistryServer) -> io::Result<IpAddr> {
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    for address in lookup_host((server.host.as_str(), server.port)).await? {
        let unspecified = if address.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
        let socket = UdpSocket::bind(unspecified).await?;
        // No packet is sent: connecting a UDP socket only chooses the route.
        match socket.connect(address).await {
            Ok(()) => return Ok(socket.local_addr()?.ip()),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::future::poll_fn;
    use std::net::Ipv4Addr;
    use std::sync::mpsc;
    use std::task::Poll;

    use tokio::runtime::Builder;
    use tokio::task::{spawn_blocking, yield_now};

    use super::*;
    use tollgate_config::Scheme;

    fn server(host: &str) -> RegistryServer {
        RegistryServer { scheme: Scheme::Http, host: host.to_owned(), port: 9, path: String::new(), login: None }
    }

    #[test]
    fn names_of_registries_are_resolved_on_another_thread() {
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
        runtime.block_on(async {
            let (release, released) = mpsc::channel::<()>();
            let hold = spawn_blocking(move || released.recv());
            let servers = [server("localhost")];
            let mut address = Box::pin(gateway_address(Ipv4Addr::UNSPECIFIED.into(), &servers));
            for _ in 0..8 {
                let polled = poll_fn(|cx| Poll::Ready(address.as_mut().poll(cx))).await;
                assert!(polled.is_pending(), "the only thread for lookups is taken");
                yield_now().await;
            }
            release.send(()).unwrap();
            hold.await.unwrap().unwrap();
            assert!(address.await.unwrap().is_loopback());
        });
    }

    #[tokio::test]
    async fn a_server_without_an_address_is_passed_over() {
        let servers = [server("registry.invalid"), server("127.0.0.1")];
        let any = Ipv4Addr::UNSPECIFIED.into();
        assert_eq!(gateway_address(any, &servers).await.unwrap(), Ipv4Addr::LOCALHOST);
        assert!(gateway_address(any, &servers[..1]).await.is_err());
        let listener = Ipv4Addr::new(192, 0, 2, 1).into();
        assert_eq!(gateway_address(listener, &servers[..1]).await.unwrap(), listener);
    }
}
