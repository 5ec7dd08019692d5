//! The README, the tables in docs/ and the files in config/ are correct.

mod configs;
mod contributing;
mod documents;
mod limiters;
mod migration;
mod promises;
mod reasons;
mod redis;
mod replay;
mod topologies;
mod tutorial;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::gateway::TOLLGATE;

/// Reads a file of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn yaml_files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} holds no YAML");
    files
}

/// Returns the blocks of a Markdown text fenced as `language`, each with the line above its fence.
fn blocks(text: &str, language: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut above = "";
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(fenced) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            if fenced == language {
                blocks.push((above.to_owned(), body.join("\n") + "\n"));
            }
        }
        above = line;
    }
    blocks
}

/// Runs the binary in an empty environment, in `folder`.
fn tollgate(arguments: &[&str], folder: &Path) -> (i32, String, String) {
    let output =
        Command::new(TOLLGATE).args(arguments).current_dir(folder).env_clear().stdin(Stdio::null()).output().unwrap();
    texts(&output)
}

fn texts(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}
