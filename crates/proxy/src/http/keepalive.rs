//! TCP keepalive of connections with clients and upstreams.

use std::time::Duration;

use socket2::TcpKeepalive;

/// Probes of a silent connection: the kernel closes it if the other side has vanished. Linux sends 9 of them.
pub const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(10));
