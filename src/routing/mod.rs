//!
//! All of this is pure. [`normalize`] puts the request's path into the one form that everything else sees;
//! start as the request's does.

mod host;
mod java_regex;
mod normal;
mod path;
mod pattern_error;
mod request;
mod segment;

pub use self::host::HostPattern;
pub use self::java_regex::RegexError;
pub use self::normal::{PathProblem, normalize};
pub use self::path::PathPattern;
pub use self::pattern_error::PatternError;
pub use self::request::{RequestView, Variables};
