//! Log lines: formats, files, and their order in time.

mod combined;
mod field_names;
mod fields;
mod json;
mod lines;
mod log_entry;
mod map;
mod order;
mod source;
mod time;
mod usual;

pub use self::field_names::LackingField;
pub use self::log_entry::{LogEntry, LogTime, LoggedVerdict};
pub use self::map::{Map, MapError, Slot};
pub use self::order::Ordered;
pub use self::source::{BrokenLine, InputStats, Inputs, OpenError};
