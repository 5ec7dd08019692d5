//! Tunnels: after the upstream's 101, and not before, bytes pass both ways unseen (RFC 9110 §7.8).

use http::Response;
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tollgate_filters::context::Tunnel;

use crate::http::body::Body;
use crate::http::upgrade::Upgrade;
use crate::upstream::pool::Lease;

/// Hands the client the upstream's 101 and joins the two connections once it has been written. A draining gateway
/// waits for tunnels like for requests: until the deadline.
pub fn tunnel(mut response: Response<Incoming>, client: OnUpgrade, lease: Lease, asked: Upgrade) -> Response<Body> {
    let upstream = hyper::upgrade::on(&mut response);
    let open = asked.host.open_tunnel();
    let (tunnel, end) = Tunnel::open();
    tokio::task::spawn_local(async move {
        // The lease is the upstream's connection, until the end.
        let _held = (open, end, lease);
        let Ok((client, upstream)) = tokio::try_join!(client, upstream) else { return };
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        // Either side may reset a tunnel as it likes: no fault of the gateway's.
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
