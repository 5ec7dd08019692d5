//! From files to one tree of values: profiles, dotted keys, overrides by environment variables and placeholders.

pub mod command_line;
pub mod computed;
pub mod documents;
pub mod dotted;
pub mod environment;
pub mod expansion;
pub mod files;
mod import_reports;
pub mod imports;
mod indexed;
mod lost;
pub(crate) mod merge;
pub(crate) mod numbers;
pub mod placeholder;
pub mod profiles;
mod unset;

/// Looks up a variable of the environment.
pub type Env<'e> = &'e dyn Fn(&str) -> Option<String>;
