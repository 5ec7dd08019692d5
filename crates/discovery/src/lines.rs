//! Responses that arrive line by line, for as long as a server holds them open.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;

use crate::client::{Call, HttpClient};
use tollgate_transport::small_client::CallError;

/// Maximum length of a line, in bytes.
const MAX_LINE: usize = 4 << 20;

/// Lines of a response. Its connection closes when this is dropped.
#[derive(Debug)]
pub(super) struct Lines {
    body: Incoming,
    buffer: BytesMut,
    /// Bytes of the buffer without a line break.
    searched: usize,
    _connection: SendRequest<Full<Bytes>>,
}

impl HttpClient {
    /// Sends `call` on a new connection, and returns the lines of a response with status 200. `call.timeout` is the
    /// time for the head of the response.
    ///
    /// # Errors
    /// The server does not respond in time, or with another status.
    pub(super) async fn lines(&self, call: &Call<'_>) -> Result<Lines, CallError> {
        let sent = tokio::time::timeout(call.timeout, async {
            let mut sender = self.connect().await?;
            let response = sender.send_request(self.request(call)?).await?;
            Ok((sender, response))
        });
        let (sender, response) = sent.await.unwrap_or(Err(CallError::Timeout(call.timeout)))?;
        if response.status() != StatusCode::OK {
            return Err(CallError::Status(response.status()));
        }
        Ok(Lines { body: response.into_body(), buffer: BytesMut::new(), searched: 0, _connection: sender })
    }
}

impl Lines {
    /// Returns the lines that have arrived completely, at least one; `None` at the end of the response.
    ///
    /// # Errors
    /// No line is complete within `timeout`, a line is too long, or the response breaks off.
    pub(super) async fn next(&mut self, timeout: Duration) -> Result<Option<Vec<Bytes>>, CallError> {
        let received = tokio::time::timeout(timeout, self.receive()).await;
        received.unwrap_or(Err(CallError::Timeout(timeout)))
    }

    async fn receive(&mut self) -> Result<Option<Vec<Bytes>>, CallError> {
        loop {
            let new = &self.buffer[self.searched..];
            if let Some(last) = new.iter().rposition(|byte| *byte == b'\n') {
                let complete = self.buffer.split_to(self.searched + last + 1).freeze();
                self.searched = 0;
                let lines = complete.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
                let lines: Vec<Bytes> = lines.map(|line| complete.slice_ref(line)).collect();
                if !lines.is_empty() {
                    return Ok(Some(lines));
                }
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > MAX_LINE {
                return Err(CallError::TooLong(MAX_LINE));
            }
            let Some(frame) = self.body.frame().await else {
                let is_complete = self.buffer.trim_ascii().is_empty();
                let broken = || CallError::Body(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
                return if is_complete { Ok(None) } else { Err(broken()) };
            };
            let frame = frame.map_err(|error| CallError::Body(error.into()))?;
            self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        }
    }
}
