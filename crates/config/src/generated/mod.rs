//! Files generated from the code: `config/schema.json`, the keys in `config/reference.yaml`, the tables in `docs/`.
//!
//! One test per file compares it with the generated text; `tests/regenerate` makes the same tests write it. All of this
//! is test code.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod keys;
mod markdown;
mod pages;
mod reference;
mod schema;
mod spring;

use std::path::{Path, PathBuf};

use self::schema::schema;
use crate::load::parse;
use crate::model::Config;

/// Variable that makes the tests write the files instead of comparing them.
const REGENERATE: &str = "TOLLGATE_REGENERATE";

/// Returns the root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Reads a file of the repository.
fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn is_regenerating() -> bool {
    std::env::var_os(REGENERATE).is_some()
}

/// Fails if the file at `path` is not `made`, or writes it.
fn is_current(path: &str, made: &str) {
    if is_regenerating() {
        std::fs::write(root().join(path), made).unwrap();
    }
    let kept = file(path);
    let differs = kept.lines().zip(made.lines()).position(|(kept, made)| kept != made);
    let line = differs.unwrap_or_else(|| kept.lines().count().min(made.lines().count())) + 1;
    assert!(kept == made, "{path} is not what the code says, from line {line} on: run tests/regenerate");
}

/// Replaces the text between the lines `begin` and `end` with `made`.
fn between(text: &str, begin: &str, end: &str, made: &str) -> String {
    let after = |from: usize, marker: &str| {
        let at = text[from..].find(marker).unwrap_or_else(|| panic!("no line `{marker}`")) + from;
        (at, at + marker.len())
    };
    let (_, start) = after(0, begin);
    let (stop, _) = after(start, end);
    format!("{}\n{made}{}", &text[..start], &text[stop..])
}

/// [`between`] the comments that mark a generated part of a Markdown text.
fn part(text: &str, name: &str, made: &str) -> String {
    between(text, &format!("<!-- generated: {name} -->"), "<!-- /generated -->", made)
}

#[test]
fn the_schema_is_current() {
    is_current("config/schema.json", &format!("{:#}\n", schema()));
}

#[test]
fn the_reference_file_is_current() {
    let text = file("config/reference.yaml");
    let made = between(&text, reference::BEGIN, reference::END, &reference::yaml(&keys::keys()));
    is_current("config/reference.yaml", &made);
}

/// Returns the configuration of `yaml` with one route.
fn config(yaml: &str) -> Config {
    let text = format!("{yaml}\nroutes: [{{id: a, uri: 'echo:', predicates: [Path=/**]}}]\n");
    parse("made.yaml", &text, &|_| None).unwrap_or_else(|problems| panic!("{problems}")).config
}

#[test]
fn defaults_in_doc_comments_are_correct() {
    let shown = |config: &Config| {
        let Config {
            server,
            management,
            memory,
            metering,
            access_log,
            request_id,
            logging,
            forwarding,
            http_client,
            dns,
            ..
        } = config;
        format!(
            "{server:#?} {management:#?} {memory:#?} {metering:#?} {access_log:#?} {request_id:#?} {logging:#?} {forwarding:#?} {http_client:#?} {dns:#?}"
        )
    };
    let mut keys = keys::keys();
    let (made, plain) = (config(&reference::yaml(&keys)), config(""));
    assert_eq!(shown(&made), shown(&plain));
    assert!(made.redis.is_none(), "a section that may be absent is commented out");

    keys.retain(|key| key.name == "redis");
    keys[0].is_optional = false;
    assert_eq!(format!("{:#?}", config(&reference::yaml(&keys)).redis), format!("{:#?}", config("redis: {}").redis));
}
