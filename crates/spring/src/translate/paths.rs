//! Encoded slashes, which Spring keeps.

use crate::translate::Explicit;
use tollgate_document::yaml::Node;

pub(super) fn translate(root: &mut Node, explicit: &mut Explicit) {
    let reason = "As in Spring, encoded slashes are part of their segment; Tollgate's default is `reject`.";
    explicit.add_missing(root, &["server", "path", "encoded-slash"], "keep", reason);
}
