//! `tollgate health`: health check for containers, so that the image needs no curl.

use std::process::ExitCode;
use std::time::Duration;

use crate::cli::admin_client::{AdminClient, CallError, Target};

/// Timeout for connecting and for the response.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Queries the readiness of a gateway.
pub(super) fn run(target: &Target) -> ExitCode {
    match AdminClient::new(target).with_timeout(TIMEOUT).check_ready() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ CallError::Refused { .. }) => {
            eprintln!("tollgate: not ready: {error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tollgate: {error}");
            ExitCode::FAILURE
        }
    }
}
