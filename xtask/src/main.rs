//! Checks of the repository that the compiler does not make.
//!
//! | Command | Checks |
//! |---|---|
//! | `cargo xtask language [PATH…]` | comments, strings and documents follow the project's rules of plain English |
//! | `cargo xtask imports` | imports follow the arrows that ARCHITECTURE.md allows; no cycle of more than four files |
//! | `cargo xtask sizes` | Rust files have at most 300 lines; 90 % of functions have at most 25; the crates do not grow |
//! | `cargo xtask recipes` | the recipes of CONTRIBUTING.md apply to a copy of the repository, which then compiles |
//! | `cargo xtask rust-versions` | the libraries require at least the Rust version of their dependencies |
//!
//! Without a path, `language` reads the whole repository. A command prints its violations and exits with status 1 if there
//! are too many.

#![allow(clippy::print_stdout)]

mod files;
mod imports;
mod language;
mod recipes;
mod rust_versions;
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
        Some("recipes") => recipes::check(&root()),
        Some("rust-versions") => rust_versions::check(&root()),
        _ => {
            eprintln!("usage: cargo xtask language [PATH…] | imports | sizes | recipes | rust-versions");
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
