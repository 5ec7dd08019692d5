//! Export of spans over OTLP: finished spans ([`span`]), a bounded queue, and a thread that sends batches to a collector.

pub mod span;

use std::cell::OnceCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::time::{Duration, Instant};

use http::Request;
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use rustls::ClientConfig;

use self::span::{Trace, export_request};
use crate::encode::{NO_LABELS, family};
use tollgate_config::OtlpExport;
use tollgate_transport::error_chain;
use tollgate_transport::small_client::{Bounds, CallError, call, system_tls};

/// Most traces that wait. Further ones are dropped and counted.
const MAX_QUEUED: usize = 2048;
/// Most spans of one batch.
const MAX_BATCH: usize = 512;
/// Most bytes of a response, which are read and ignored.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// Longest time for which a span waits for others of its batch.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// Queue of finished traces. All clones share one queue.
#[derive(Clone, Debug)]
pub struct SpanQueue {
    sender: SyncSender<Message>,
    stats: Arc<SpanStats>,
}

/// Message to the thread.
#[derive(Debug)]
enum Message {
    Trace(Trace),
    /// Sends what is queued; the sender is dropped then.
    Flush(std::sync::mpsc::Sender<()>),
}

/// Counters of spans.
#[derive(Debug, Default)]
pub struct SpanStats {
    exported: AtomicU64,
    /// Dropped because the queue was full.
    overflowed: AtomicU64,
    /// Dropped because the collector did not take them.
    failed: AtomicU64,
}

impl SpanQueue {
    /// Starts the thread that sends spans to the collector of `settings`.
    ///
    /// # Errors
    /// The thread or its runtime cannot be created.
    pub fn start(settings: &OtlpExport) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(MAX_QUEUED);
        let stats = Arc::<SpanStats>::default();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let exporter = Exporter { settings: settings.clone(), stats: Arc::clone(&stats), runtime };
        std::thread::Builder::new().name("traces".to_owned()).spawn(move || exporter.run(&receiver))?;
        Ok(Self { sender, stats })
    }

    /// Queues a trace without waiting.
    pub fn push(&self, trace: Trace) {
        if let Err(TrySendError::Full(Message::Trace(trace)) | TrySendError::Disconnected(Message::Trace(trace))) =
            self.sender.try_send(Message::Trace(trace))
        {
            self.stats.overflowed.fetch_add(trace.spans.len() as u64, Relaxed);
        }
    }

    /// Sends what is queued, for `timeout` at most.
    pub fn flush(&self, timeout: Duration) {
        let (done, flushed) = channel();
        if self.sender.try_send(Message::Flush(done)).is_ok() {
            let _ = flushed.recv_timeout(timeout);
        }
    }

    /// Returns the counters.
    pub fn stats(&self) -> &Arc<SpanStats> {
        &self.stats
    }
}

/// Thread that sends spans.
struct Exporter {
    settings: OtlpExport,
    stats: Arc<SpanStats>,
    runtime: tokio::runtime::Runtime,
}

impl Exporter {
    /// Sends batches until all queues are gone.
    fn run(self, queue: &Receiver<Message>) {
        let tls = OnceCell::new();
        while let Ok(first) = queue.recv() {
            let (mut batch, mut spans) = (Vec::new(), 0);
            let deadline = Instant::now() + BATCH_TIME;
            let mut next = Ok(first);
            let flushed = loop {
                match next {
                    Ok(Message::Trace(trace)) => {
                        spans += trace.spans.len();
                        batch.push(trace);
                    }
                    Ok(Message::Flush(done)) => break Some(done),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break None,
                }
                if spans >= MAX_BATCH {
                    break None;
                }
                next = queue.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            };
            self.send(&batch, &tls);
            drop(flushed);
        }
    }

    fn send(&self, batch: &[Trace], tls: &OnceCell<Arc<ClientConfig>>) {
        let spans = batch.iter().map(|trace| trace.spans.len() as u64).sum();
        if spans == 0 {
            return;
        }
        let body = export_request(&self.settings.resource, batch);
        match self.runtime.block_on(self.post(body, tls)) {
            Ok(()) => self.stats.exported.fetch_add(spans, Relaxed),
            Err(error) => {
                tracing::warn!(spans, error = error_chain(&error), endpoint = %self.settings.endpoint, "spans dropped");
                self.stats.failed.fetch_add(spans, Relaxed)
            }
        };
    }

    /// Sends a batch. `tls` keeps the settings of TLS, which are read on first use.
    async fn post(&self, body: Vec<u8>, tls: &OnceCell<Arc<ClientConfig>>) -> Result<(), CallError> {
        let settings = &self.settings;
        let mut request = Request::post("/").header(CONTENT_TYPE, "application/x-protobuf");
        for (name, value) in &settings.headers {
            request = request.header(name, value);
        }
        let read_once = || match tls.get() {
            Some(config) => Ok(Arc::clone(config)),
            None => system_tls().inspect(|read| drop(tls.set(Arc::clone(read)))),
        };
        let bounds = Bounds { timeout: settings.timeout, max_bytes: MAX_RESPONSE_BYTES };
        match call(&settings.endpoint, request, body.into(), read_once, bounds).await {
            // The status was a success, and nothing in the body matters.
            Ok(_) | Err(CallError::TooLong(_) | CallError::Body(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl SpanStats {
    /// Encodes the counters.
    ///
    /// # Errors
    /// The encoder fails.
    pub fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> std::fmt::Result {
        let exported = ConstCounter::new(self.exported.load(Relaxed));
        let help = "Spans that the collector has taken";
        family(encoder, "tollgate_trace_spans_exported", help, [(NO_LABELS, exported)])?;
        let dropped = [("queue_full", &self.overflowed), ("export_failed", &self.failed)]
            .map(|(reason, count)| ([("reason", reason)], ConstCounter::new(count.load(Relaxed))));
        family(encoder, "tollgate_trace_spans_dropped", "Spans dropped by reason", dropped)
    }
}
