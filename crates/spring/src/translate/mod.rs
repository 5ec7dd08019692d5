//! Translates what Spring means into keys of our own form.
//!
//! A Spring file that is silent about a setting means Spring's default. Where ours differs, the translation writes Spring's
//! into the tree, so that everything behind it reads one form with one meaning. `tollgate migrate` prints the same tree, each
//! added key below the comment that says why it is there.

mod explicit;
mod http_client;
mod paths;
mod proxies;

pub use self::explicit::Explicit;

use tollgate_document::diagnostics::Diagnostics;
use tollgate_document::yaml::Node;

/// Adds Spring's defaults to `root`, normalized and with or without its placeholders. Returns the keys that it added.
pub fn translate(root: &mut Node, diagnostics: &mut Diagnostics) -> Explicit {
    let mut explicit = Explicit::default();
    paths::translate(root, &mut explicit);
    http_client::translate(root, &mut explicit);
    proxies::translate(root, &mut explicit, diagnostics);
    explicit
}
