//! Draws the pictures in `docs/limiters/` from what the limiters decide.
//!
//! `cargo run -p tollgate-filters --example plot_limiters` writes them; a test compares them with what it would write.
//! With a folder's name they are written there instead.

mod plots;

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).map_or_else(plots::folder, PathBuf::from);
    for (name, picture) in plots::all()? {
        std::fs::write(folder.join(name), picture)?;
    }
    Ok(())
}
