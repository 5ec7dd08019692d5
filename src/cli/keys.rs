//! `tollgate keys`: new API keys, and the hashes of existing ones.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::process::ExitCode;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use tollgate_filters::api_key::{ApiKey, KeyHash, hash, hex};

use crate::cli::report::{usage, write};

/// Longest key that is read, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print a new key of 256 random bits, once, and its entry for the file of keys
    New(Entry),
    /// Read a key from standard input, and print its SHA-256 hash for an entry
    Hash,
}

/// Fields of the new entry.
#[derive(Debug, Args)]
pub(super) struct Entry {
    /// Id under which requests with the key are counted
    #[arg(long)]
    id: String,
    /// Plan of the id
    #[arg(long)]
    plan: Option<String>,
    /// Time at which the key expires, such as 2027-01-01T00:00:00Z
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// Route that the key may use; may be repeated [default: all]
    #[arg(long = "route", value_name = "ROUTE")]
    routes: Vec<String>,
}

/// Runs the command.
pub(super) fn run(command: &Command) -> ExitCode {
    match command {
        Command::New(entry) => new(entry),
        Command::Hash => match read_key() {
            Ok(key) if key.is_empty() => usage("standard input has no key"),
            Ok(key) => write(&format!("{}\n", hex(&hash(&key)))),
            Err(error) => usage(format_args!("cannot read the key from standard input: {error}")),
        },
    }
}

fn new(entry: &Entry) -> ExitCode {
    let mut bytes = [0; 32];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        return usage("the system has no random bytes");
    }
    let key = URL_SAFE_NO_PAD.encode(bytes);
    let entry = entry.text(&hash(key.as_bytes()));
    match ApiKey::parse(&entry) {
        Ok(_) => {
            eprintln!("The key is shown once: hand it to its owner, and add the second line to the file of keys.");
            write(&format!("{key}\n- {entry}\n"))
        }
        Err(error) => usage(error.message),
    }
}

/// Returns the key on standard input, without the line break behind it.
fn read_key() -> io::Result<Vec<u8>> {
    let mut key = Vec::new();
    io::stdin().lock().take(MAX_KEY_BYTES).read_to_end(&mut key)?;
    let length = key.trim_ascii_end().len();
    key.truncate(length);
    Ok(key)
}

impl Entry {
    /// Returns the entry of a key with `hash`.
    fn text(&self, hash: &KeyHash) -> String {
        let mut text = format!("{{id: {}, sha256: {}", quoted(&self.id), hex(hash));
        // Writing to a string cannot fail.
        let mut add = |name, value: String| {
            let _ = write!(text, ", {name}: {value}");
        };
        if let Some(plan) = &self.plan {
            add("plan", quoted(plan));
        }
        if let Some(expires) = &self.expires {
            add("expires", quoted(expires));
        }
        if !self.routes.is_empty() {
            let routes: Vec<_> = self.routes.iter().map(|route| quoted(route)).collect();
            add("routes", format!("[{}]", routes.join(", ")));
        }
        text + "}"
    }
}

/// Returns `text` as a value of YAML: in quotes unless it is a word.
fn quoted(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !["true", "false", "null", "yes", "no", "on", "off"].contains(&text.to_ascii_lowercase().as_str());
    if is_word { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}
