//! Lua scripts: those of `lua/`, one for each algorithm, and those for several rules, which are made of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use redis::Cmd;

use super::compose::{self, Part, compose};
use crate::limiter::rule::Algorithm;

/// A Lua script and the name that Redis knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    text: Cow<'static, str>,
    sha1: String,
}

/// The text of an algorithm's script.
pub(super) fn text(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::TokenBucket => include_str!("../../../../lua/token_bucket.lua"),
        Algorithm::Gcra => include_str!("../../../../lua/gcra.lua"),
        Algorithm::FixedWindow => include_str!("../../../../lua/fixed_window.lua"),
        Algorithm::SlidingWindowLog => include_str!("../../../../lua/sliding_window_log.lua"),
        Algorithm::SlidingWindowCounter => include_str!("../../../../lua/sliding_window_counter.lua"),
        Algorithm::LeakyBucket => include_str!("../../../../lua/leaky_bucket.lua"),
        Algorithm::Quota => include_str!("../../../../lua/quota.lua"),
    }
}

/// The scripts for one rule, in the order of [`Algorithm::ALL`].
static SINGLE: LazyLock<Vec<Arc<Script>>> =
    LazyLock::new(|| Algorithm::ALL.iter().map(|algorithm| Arc::new(Script::new(text(*algorithm)))).collect());

/// Whether the algorithms' scripts keep their state in one string, in the same order.
static PACKABLE: LazyLock<Vec<bool>> =
    LazyLock::new(|| Algorithm::ALL.iter().map(|algorithm| compose::is_packable(text(*algorithm))).collect());

/// Scripts for several rules that were asked for so far.
static LISTS: LazyLock<RwLock<Lists>> = LazyLock::new(RwLock::default);

type Lists = HashMap<Box<[Part]>, Arc<Script>>;

/// The same for batches.
static BATCHES: LazyLock<RwLock<Lists>> = LazyLock::new(RwLock::default);

fn position(algorithm: Algorithm) -> usize {
    Algorithm::ALL.iter().position(|known| *known == algorithm).unwrap_or_default()
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
        Arc::clone(&SINGLE[position(algorithm)])
    }

    /// Whether an algorithm's state is one string, which can be kept with those of other rules.
    pub(super) fn is_packable(algorithm: Algorithm) -> bool {
        PACKABLE[position(algorithm)]
    }

    /// The scripts for one rule.
    pub(super) fn all_single() -> impl Iterator<Item = &'static Self> {
        SINGLE.iter().map(|script| &**script)
    }

    /// The script that decides one request under several rules.
    pub(super) fn list(parts: &[Part]) -> Arc<Self> {
        Self::composed(parts, false, &LISTS)
    }

    /// The script that decides many equal requests under one rule or several.
    pub(super) fn batch(parts: &[Part]) -> Arc<Self> {
        Self::composed(parts, true, &BATCHES)
    }

    fn composed(parts: &[Part], batch: bool, known: &RwLock<Lists>) -> Arc<Self> {
        if let Some(known) = known.read().get(parts) {
            return Arc::clone(known);
        }
        let script = Arc::new(Self::new(compose(parts, batch, text)));
        Arc::clone(known.write().entry(parts.into()).or_insert(script))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn a_list_is_made_once() {
        let part = |arg| Part { algorithm: Algorithm::Gcra, packed_as: Some("a".into()), key: 0, arg, args: 4 };
        assert!(Arc::ptr_eq(&Script::list(&[part(0), part(4)]), &Script::list(&[part(0), part(4)])));
        assert_ne!(Script::list(&[part(0)]).sha1(), Script::list(&[part(0), part(4)]).sha1());
        assert_ne!(Script::list(&[part(0)]).sha1(), Script::batch(&[part(0)]).sha1());
    }
}
