//! Tasks that end with their owner.

use tokio::task::JoinHandle;

/// Task that is aborted when it is dropped.
#[derive(Debug)]
pub(super) struct AbortOnDrop(JoinHandle<()>);

impl From<JoinHandle<()>> for AbortOnDrop {
    fn from(task: JoinHandle<()>) -> Self {
        Self(task)
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
