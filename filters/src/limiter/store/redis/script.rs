//! Lua scripts: those of `lua/`, one for each algorithm, and those for several rules, which are made of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use redis::Cmd;

use crate::limiter::rule::Algorithm;

/// A Lua script and the name that Redis knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    text: Cow<'static, str>,
    sha1: String,
}

/// The text of an algorithm's script.
fn text(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::TokenBucket => include_str!("../../../../lua/token_bucket.lua"),
        Algorithm::Gcra => include_str!("../../../../lua/gcra.lua"),
        Algorithm::FixedWindow => include_str!("../../../../lua/fixed_window.lua"),
    }
}

/// The scripts for one rule, in the order of [`Algorithm::ALL`].
static SINGLE: LazyLock<Vec<Arc<Script>>> =
    LazyLock::new(|| Algorithm::ALL.iter().map(|algorithm| Arc::new(Script::new(text(*algorithm)))).collect());

/// Scripts for several rules that were asked for so far.
static LISTS: LazyLock<RwLock<Lists>> = LazyLock::new(RwLock::default);

type Lists = HashMap<Box<[Part]>, Arc<Script>>;

/// One rule within a script for several: its algorithm, its keys and its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub(super) algorithm: Algorithm,
    pub(super) keys: usize,
    pub(super) args: usize,
}

// === impl Script ===

impl Script {
    /// `text` as a script.
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let sha1 = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha1 }
    }

    /// The script that decides under one rule.
    pub(super) fn single(algorithm: Algorithm) -> Arc<Self> {
        let at = Algorithm::ALL.iter().position(|known| *known == algorithm).unwrap_or_default();
        Arc::clone(&SINGLE[at])
    }

    /// The scripts for one rule.
    pub(super) fn all_single() -> impl Iterator<Item = &'static Self> {
        SINGLE.iter().map(|script| &**script)
    }

    /// The script that decides under several rules.
    pub(super) fn list(parts: &[Part]) -> Arc<Self> {
        if let Some(known) = LISTS.read().get(parts) {
            return Arc::clone(known);
        }
        let script = Arc::new(Self::new(compose(parts)));
        Arc::clone(LISTS.write().entry(parts.into()).or_insert(script))
    }

    /// Its SHA-1 in hexadecimal, for `EVALSHA`.
    pub(crate) fn sha1(&self) -> &str {
        &self.sha1
    }

    /// The command that teaches Redis the script.
    pub(crate) fn load(&self) -> Cmd {
        let mut cmd = redis::cmd("SCRIPT");
        cmd.arg("LOAD").arg(&*self.text);
        cmd
    }
}

/// The sections of an algorithm's script, which its marker lines divide.
struct Sections<'t> {
    validate: &'t str,
    time: &'t str,
    decide: &'t str,
    commit: &'t str,
    reply: &'t str,
}

impl<'t> Sections<'t> {
    fn of(text: &'t str) -> Self {
        let (validate, rest) = text.split_once("-- [time]\n").unwrap_or((text, ""));
        let (time, rest) = rest.split_once("-- [/time]\n").unwrap_or_default();
        let (decide, rest) = rest.split_once("-- [commit]\n").unwrap_or_default();
        let (commit, reply) = rest.split_once("-- [reply]\n").unwrap_or_default();
        let validate = validate.split_once("--]]\n").map_or(validate, |(_, code)| code);
        Self { validate, time, decide, commit, reply: reply.trim_start_matches("return").trim() }
    }
}

/// One script of several: each part's decision is a block that encloses those of the parts behind it, so that the
/// innermost line knows all of them, and on the way out each part, its variables in sight again, is committed if all
/// allow. A part that denies may write too: it takes nothing then. The time is read once.
fn compose(parts: &[Part]) -> String {
    let mut script = String::from("local all, out = true, {}\n");
    let (mut key, mut arg) = (0, 0);
    for (at, part) in parts.iter().enumerate() {
        let sections = Sections::of(text(part.algorithm));
        let slice = |name: &str, start: usize, count: usize| {
            let items: Vec<String> = (start + 1..=start + count).map(|n| format!("{name}[{n}]")).collect();
            items.join(", ")
        };
        let _ = writeln!(
            script,
            "do local KEYS, ARGV = {{{}}}, {{{}}}",
            slice("KEYS", key, part.keys),
            slice("ARGV", arg, part.args)
        );
        script += sections.validate;
        if at == 0 {
            script += sections.time;
        }
        script += sections.decide;
        script += "all = all and allowed == 1\n";
        // The parts behind see the script's own keys and arguments again.
        script += "do local KEYS, ARGV = EVERY_KEY, EVERY_ARG\n";
        (key, arg) = (key + part.keys, arg + part.args);
    }
    for (at, part) in parts.iter().enumerate().rev() {
        let sections = Sections::of(text(part.algorithm));
        script += "end\nif all or allowed ~= 1 then\n";
        script += sections.commit;
        let _ = writeln!(script, "else left = left + cost end\nout[{}] = {}\nend", at + 1, sections.reply);
    }
    format!("local EVERY_KEY, EVERY_ARG = KEYS, ARGV\n{script}return out\n")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn every_script_has_its_sections_in_order() {
        for algorithm in Algorithm::ALL {
            let sections = Sections::of(text(algorithm));
            assert!(sections.validate.contains("#KEYS"), "{algorithm:?}");
            assert!(sections.time.contains("call('TIME')"), "{algorithm:?}");
            assert!(sections.decide.contains("allowed"), "{algorithm:?}");
            assert!(sections.commit.trim_end().ends_with("end"), "{algorithm:?}");
            assert!(sections.reply.starts_with('{') && sections.reply.ends_with('}'), "{algorithm:?}");
        }
    }

    #[test]
    fn a_list_is_made_once() {
        let part = Part { algorithm: Algorithm::Gcra, keys: 1, args: 6 };
        assert!(Arc::ptr_eq(&Script::list(&[part, part]), &Script::list(&[part, part])));
        assert_ne!(Script::list(&[part, part]).sha1(), Script::list(&[part; 3]).sha1());
    }
}
