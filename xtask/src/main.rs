//! Checks of the repository that the compiler does not make.
//!
//! | Command | Checks |
//! |---|---|
//! | `cargo xtask language [PATH…]` | comments, strings and documents follow the project's rules of plain English |
//! | `cargo xtask imports` | imports follow the arrows that ARCHITECTURE.md allows; no ring of more than four files |
//! | `cargo xtask sizes` | no Rust file has more than 300 lines, and few functions more than 25 |
//!
//! Without a path, `language` reads the whole repository. Each prints each violation as `file:line: message` and exits
//! with status 1 if there is any.

#![allow(clippy::print_stdout)]

mod files;
mod imports;
mod language;
mod sizes;

use std::path::PathBuf;
use std::process::ExitCode;

/// Returns the root of the repository; the current folder if cargo does not run the program.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), |xtask| PathBuf::from(xtask).join(".."))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let result = match arguments.next().as_deref() {
        Some("language") => language::check(&root(), &arguments.collect::<Vec<_>>()),
        Some("imports") => imports::check(&root()),
        Some("sizes") => sizes::check(&root()),
        _ => {
            eprintln!("usage: cargo xtask language [PATH…] | imports | sizes");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(report) => {
            print!("{report}");
            ExitCode::FAILURE
        }
    }
}
