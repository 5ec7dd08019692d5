//! Tunnels. From the upstream's status 101 on, bytes pass both ways unread (RFC 9110 §7.8).

use http::Response;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tollgate_filters::context::Tunnel;

use crate::http::body::Body;
use crate::http::upgrade::Upgrade;
use crate::upstream::incoming::Incoming;
use crate::upstream::lease::ConnectionLease;
use tollgate_transport::executor::spawn_boxed;

/// Returns the upstream's status 101 to the client and connects the two connections once it has been written. A
/// draining gateway waits for tunnels as it does for requests: until the deadline.
pub(super) fn tunnel(
    mut response: Response<Incoming>,
    client: OnUpgrade,
    lease: ConnectionLease,
    requested: &Upgrade,
) -> Response<Body> {
    let upstream = hyper::upgrade::on(&mut response);
    let open = requested.host.open_tunnel();
    let (tunnel, end) = Tunnel::open();
    spawn_boxed(async move {
        // The lease holds the upstream's connection until the end.
        let _held = (open, end, lease);
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else { return };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        // A reset by either side is a normal end of a tunnel.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut upstream).await;
    });
    let (mut head, _) = response.into_parts();
    head.extensions.insert(tunnel);
    let protocol = head.headers.remove(UPGRADE);
    for name in [CONNECTION, http::header::TRANSFER_ENCODING, http::header::CONTENT_LENGTH] {
        head.headers.remove(name);
    }
    head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        head.headers.insert(UPGRADE, protocol);
    }
    Response::from_parts(head, Body::default())
}
