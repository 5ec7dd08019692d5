//! Pictures of the limiters, drawn from real decisions.

mod chart;
mod line;
mod pictures;
mod slots;
mod trace;

use std::error::Error;
use std::path::PathBuf;

/// Returns the folder of the pictures: `docs/limiters`.
#[must_use]
pub fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/limiters"))
}

/// Draws all pictures. Returns file names and SVG documents.
///
/// # Errors
/// Fails if a rule is invalid.
pub fn all() -> Result<Vec<(&'static str, String)>, Box<dyn Error>> {
    Ok(vec![
        ("token-bucket.svg", pictures::token_bucket()?),
        ("gcra.svg", pictures::gcra()?),
        ("fixed-window.svg", pictures::fixed_window()?),
        ("sliding-window-log.svg", pictures::sliding_window_log()?),
        ("sliding-window-counter.svg", pictures::sliding_window_counter()?),
        ("leaky-bucket.svg", pictures::leaky_bucket()?),
        ("concurrency.svg", slots::concurrency()),
        ("quota.svg", pictures::quota()?),
        ("compare.svg", pictures::compare()?),
    ])
}
