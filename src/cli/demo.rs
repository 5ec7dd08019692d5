//! `tollgate demo`: runs the gateway with a built-in configuration.

use std::process::ExitCode;

use crate::app::reload::Source;
use crate::cli::serve;
use tollgate_config::LoadError;

/// Configuration of the demo.
const DEMO: &str = include_str!("../../config/tollgate.yaml");

/// Runs the demo.
pub(super) fn demo() -> ExitCode {
    let environment = |name: &str| std::env::var(name).ok();
    serve::start(tollgate_config::parse("demo", DEMO, &environment).map_err(LoadError::Invalid), &Source::Embedded)
}
