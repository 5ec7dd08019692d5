//! Connections of the admin port, and the deadlines of their requests.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::admin::deadline::{Deadline, REQUEST_TIMEOUT};
use crate::admin::respond;
use crate::admin::state::AdminState;

/// Timeout for a request head, and for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a request head in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// Serves one connection, until it ends or its deadline passes. Each request moves the deadline.
pub(super) async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, client: IpAddr, state: Arc<AdminState>) {
    let deadline = Deadline::new();
    let latest = deadline.clone();
    let service = service_fn(move |request| {
        let (state, deadline) = (Arc::clone(&state), latest.clone());
        deadline.set(REQUEST_TIMEOUT);
        async move { Ok::<_, Infallible>(respond(request, client, &state, deadline).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        _ = connection => {}
        () = deadline.passed() => {}
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::Ipv4Addr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::task::LocalSet;
    use tokio::time::Instant;

    use super::*;
    use crate::admin::ConfigState;
    use crate::state::stores::SharedStores;
    use crate::telemetry::top_keys::Readers;

    fn state() -> Arc<AdminState> {
        let yaml = "routes: [{id: a, uri: 'echo:', predicates: [Path=/a]}]";
        let loaded = tollgate_config::parse("test", yaml, &|_| None).map_err(|report| report.render(false)).unwrap();
        let (config, notes) = (Arc::new(loaded.config), ConfigState::new(None, loaded.notes));
        let stores = SharedStores::new(&config);
        AdminState::new((config, notes), stores, Arc::default(), Arc::default(), Readers::default(), None, None).0
    }

    /// Asks for events. The connection holds 1024 bytes.
    async fn view(state: &Arc<AdminState>) -> (DuplexStream, tokio::task::JoinHandle<()>) {
        let (mut client, server) = tokio::io::duplex(1024);
        let state = Arc::clone(state);
        let served = tokio::task::spawn_local(serve(server, Ipv4Addr::LOCALHOST.into(), state));
        client.write_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        (client, served)
    }

    #[tokio::test(start_paused = true)]
    async fn a_viewer_that_reads_is_kept_and_one_that_does_not_is_dropped() {
        let body = async {
            let (state, started) = (state(), Instant::now());
            let (_silent, served) = view(&state).await;
            let (mut reading, _kept) = view(&state).await;
            let reads = async {
                let mut buffer = [0; 4096];
                while reading.read(&mut buffer).await.unwrap() > 0 {}
            };
            tokio::select! {
                ended = served => ended.unwrap(),
                () = reads => unreachable!("the viewer that reads was dropped"),
            }
            // The server holds a few snapshots, of which there is one a second.
            assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
            assert_eq!(state.events.viewers(), 1);
        };
        LocalSet::new().run_until(body).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends() {
        let started = Instant::now();
        let (_client, server) = tokio::io::duplex(1024);
        LocalSet::new().run_until(serve(server, Ipv4Addr::LOCALHOST.into(), state())).await;
        assert!(started.elapsed() <= REQUEST_TIMEOUT, "{:?}", started.elapsed());
    }
}
