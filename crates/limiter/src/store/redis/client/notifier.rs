//! Notices of returned tokens to all gateways.

use std::sync::Arc;

use redis::Cmd;
use tokio::time::{Instant, timeout_at};

use crate::store::redis::connection::{ConnectionContext, LiveConnection};

/// Publishes notices on the connection of a call, behind that call.
pub(crate) struct Notifier {
    pub(super) context: Arc<ConnectionContext>,
    pub(super) connection: Option<LiveConnection>,
    pub(super) deadline: Instant,
}

impl Notifier {
    /// Notifies all gateways that tokens were returned to `key`. An error is ignored, since the user may lack the
    /// permission: cached denials then end by their own deadline.
    pub(crate) async fn returned(self, key: &[u8]) {
        let Some(mut live) = self.connection else { return };
        let mut cmd = Cmd::new();
        cmd.arg("PUBLISH").arg(&self.context.channel).arg(key);
        let _ = timeout_at(self.deadline, live.connection.send_packed_command(&cmd)).await;
    }
}
