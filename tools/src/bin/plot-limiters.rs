//! Draws the pictures in `docs/limiters/` from the decisions of the limiters.
//!
//! `cargo run -p tollgate-tools --bin plot-limiters [-- FOLDER]` writes them to `docs/limiters/`, or to `FOLDER`.
//! `tests/pictures.rs` fails if a picture in `docs/limiters/` is out of date.

use std::error::Error;
use std::path::PathBuf;

use tollgate_tools::plots;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).map_or_else(plots::folder, PathBuf::from);
    for (name, picture) in plots::all()? {
        std::fs::write(folder.join(name), picture)?;
    }
    Ok(())
}
