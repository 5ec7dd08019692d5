//! Secrets of a text that cannot be read, and of comments.

use super::misspelled::{SECRET_KEYS, resembles_secret};
use super::names::{SECRET_NAMES, letters};

/// Sections with secrets, and schemes of credentials.
const SECTIONS: [&str; 6] = ["basic", "bearer", "block", "exempt", "headers", "table"];
/// Setting of nearly every file, whose name is not that of a secret.
const NO_SECRET: &str = "keyresolver";

/// Returns true if `text` mentions the name of a secret, also across its signs and line breaks, or has a URL with a user.
pub(super) fn secrets(text: &str) -> bool {
    let written = letters(text).replace(NO_SECRET, "");
    let mut names = SECRET_NAMES.iter().chain(&SECRET_KEYS).chain(&SECTIONS);
    let has_user = || text.contains(':') && (text.contains('@') || text.contains("%40"));
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || "-_".contains(c)));
    names.any(|name| written.contains(name)) || has_user() || words.any(resembles_secret)
}

/// Returns the position of the comment at the end of a line, if it mentions one.
pub(super) fn in_comment(line: &str) -> Option<usize> {
    let start = line.match_indices('#').map(|(at, _)| at).find(|at| line[..*at].trim_end().len() < *at || *at == 0)?;
    secrets(&line[start..]).then_some(start)
}
