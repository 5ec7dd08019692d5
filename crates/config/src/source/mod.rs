//! From files to one tree of values: profiles, dotted keys, overrides by environment variables and placeholders.

pub(crate) mod command_line;
pub(crate) mod documents;
pub(crate) mod dotted;
pub(crate) mod environment;
pub(crate) mod files;
pub(crate) mod host;
mod import_reports;
pub(crate) mod imports;
mod indexed;
mod instances;
pub(crate) mod placeholder;
pub(crate) mod profiles;
pub(crate) mod random;
mod unset;
