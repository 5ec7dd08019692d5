//! Errors, warnings and notes about a configuration: collected while it is read ([`Diagnostics`]), then rendered with
//! their lines ([`Report`]).

mod collect;
mod help;
mod lines;
mod missing;
mod render;
mod report;
mod secrets;
mod suggest;
mod text;
mod unknown;

pub use collect::Diagnostics;
pub use help::{Help, Reported};
pub use missing::{A_SECRET, Missing, PROPOSAL, Section, is_proposal, quoted, yaml_key};
pub use render::MAX_SHOWN;
pub use report::{Diagnostic, MAX_LISTED, Report, Severity};
pub use secrets::{NAMED_VALUES, SecretValues, is_secret_key, is_secret_name, without_scheme};
pub use suggest::{is_misspelled, similar};
pub use text::{ACCEPTED, DocumentId, Format, Import, Outcome, ServerPlaces, SourceFile, SourceText};
pub use unknown::{UnknownKey, UnknownKind, UnknownName};

/// Returns the message of `error` and of its sources, joined on one line.
pub fn reasons(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut next = error.source();
    while let Some(reason) = next {
        let text = reason.to_string();
        // A regular expression's error is a drawing of several lines; the last one is the message.
        let line = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
        message.push_str(": ");
        message.push_str(line);
        next = reason.source();
    }
    message
}
