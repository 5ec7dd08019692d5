//! Lua scripts: those of `lua/`, one for each algorithm, and those for several rules, which are made of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::RwLock;
use redis::Cmd;

use super::batch::for_many;
use super::compose::{self, Mode, Part, compose};
use crate::rule::Algorithm;

/// A Lua script and the name that Redis knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    text: Cow<'static, str>,
    sha1: String,
    /// All of its keys are strings, and it takes an empty one for one that is missing.
    reads_strings: bool,
    many: OnceLock<Arc<Self>>,
}

/// The text of an algorithm's script.
pub(super) fn text(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::TokenBucket => include_str!("../../../lua/token_bucket.lua"),
        Algorithm::Gcra => include_str!("../../../lua/gcra.lua"),
        Algorithm::FixedWindow => include_str!("../../../lua/fixed_window.lua"),
        Algorithm::SlidingWindowLog => include_str!("../../../lua/sliding_window_log.lua"),
        Algorithm::SlidingWindowCounter => include_str!("../../../lua/sliding_window_counter.lua"),
        Algorithm::LeakyBucket => include_str!("../../../lua/leaky_bucket.lua"),
        Algorithm::Quota => include_str!("../../../lua/quota.lua"),
    }
}

/// The scripts for one rule, in the order of [`Algorithm::ALL`].
static SINGLE: LazyLock<Vec<Arc<Script>>> = LazyLock::new(|| {
    Algorithm::ALL.iter().map(|&algorithm| Arc::new(Script::of(text(algorithm), [algorithm]))).collect()
});

/// Whether the algorithms' scripts keep their state in one string, in the same order.
static PACKABLE: LazyLock<Vec<bool>> =
    LazyLock::new(|| Algorithm::ALL.iter().map(|algorithm| compose::is_packable(text(*algorithm))).collect());

/// Scripts for several rules that were asked for so far, by their modes.
static LISTS: LazyLock<[RwLock<Lists>; 3]> = LazyLock::new(Default::default);

type Lists = HashMap<Box<[Part]>, Arc<Script>>;

fn position(algorithm: Algorithm) -> usize {
    Algorithm::ALL.iter().position(|known| *known == algorithm).unwrap_or_default()
}

// === impl Script ===

impl Script {
    /// `text` as a script.
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let sha1 = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha1, reads_strings: false, many: OnceLock::new() }
    }

    /// `text` as a script that reads the states of `algorithms`.
    fn of(text: impl Into<Cow<'static, str>>, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let reads_strings = algorithms.into_iter().all(|algorithm| algorithm != Algorithm::SlidingWindowLog);
        Self { reads_strings, ..Self::new(text) }
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

    /// Whether all of its keys are strings, and an empty one is as good as none.
    pub(super) fn reads_strings(&self) -> bool {
        self.reads_strings
    }

    /// The script that does `mode` under several rules.
    pub(super) fn list(parts: &[Part], mode: Mode) -> Arc<Self> {
        let lists = &LISTS[mode as usize];
        if let Some(known) = lists.read().get(parts) {
            return Arc::clone(known);
        }
        let script = Arc::new(Self::of(compose(parts, mode, text), parts.iter().map(|part| part.algorithm)));
        Arc::clone(lists.write().entry(parts.into()).or_insert(script))
    }

    /// The script that runs it for many callers.
    pub(super) fn many(&self) -> &Arc<Self> {
        self.many.get_or_init(|| Arc::new(Self::new(for_many(&self.text))))
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
        let list = |parts: &[Part]| Script::list(parts, Mode::Take);
        assert!(Arc::ptr_eq(&list(&[part(0), part(4)]), &list(&[part(0), part(4)])));
        assert_ne!(list(&[part(0)]).sha1(), list(&[part(0), part(4)]).sha1());
        for other in [Mode::Look, Mode::Batch] {
            assert_ne!(list(&[part(0)]).sha1(), Script::list(&[part(0)], other).sha1());
        }
    }
}
