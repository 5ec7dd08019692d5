//! Translates what Spring means into keys of our own form.
//!
//! A Spring file that is silent about a setting means Spring's default. Where ours differs, the translation writes Spring's
//! into the tree, so that everything behind it reads one form with one meaning. `tollgate migrate` prints the same tree, each
//! added key below the comment that says why it is there.

mod bucket4j;
mod component;
mod explicit;
mod filters;
mod limiters;
mod predicates;
mod redis;
mod routes;
mod sections;

pub use self::explicit::Explicit;
pub use self::redis::with_tls;

use crate::tree::find;
use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::{Node, NodeKind};

/// Adds Spring's defaults to `root`, normalized and with or without its placeholders. Returns the keys that it added.
/// `ignores_trailing_slash` is that of [`Normalized`](crate::normalize::Normalized).
pub fn translate(root: &mut Node, ignores_trailing_slash: bool, diagnostics: &mut Diagnostics) -> Explicit {
    let mut explicit = Explicit::default();
    sections::translate(root, &mut explicit, diagnostics);
    routes::translate(root, &mut explicit, diagnostics);
    redis::translate(root, diagnostics);
    predicates::translate(root, ignores_trailing_slash, &mut explicit, diagnostics);
    filters::translate(root, &mut explicit, diagnostics);
    limiters::translate(root, &mut explicit, diagnostics);
    explicit
}

/// Reports the key `name` of `section`, if it has a value, as one that Spring ignores, and empties it.
fn ignore(section: &mut Node, name: &str, message: String, help: &str, diagnostics: &mut Diagnostics) {
    if let Some(node) = find(section, &[name]).filter(|node| !matches!(node.kind, NodeKind::Null)) {
        diagnostics.warn(node.span.key(), message).ineffective().help(help);
        node.kind = NodeKind::Null;
    }
}
