//! Lua scripts: those of `lua/`, one for each algorithm, and those composed of them for several rules or callers.

mod compose;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use parking_lot::RwLock;
use redis::{Arg, Cmd};

pub(crate) use self::compose::{ListMode, ListedRule};
use self::compose::{compose, single};
use crate::rule::Algorithm;

/// A Lua script and its SHA-1, by which Redis knows it.
#[derive(Debug)]
pub(crate) struct Script {
    text: Cow<'static, str>,
    sha1: String,
    keeps_strings: bool,
    batched: OnceLock<Arc<Self>>,
}

/// Scripts for one rule, in the order of [`Algorithm::ALL`].
static SINGLE: LazyLock<Vec<Arc<Script>>> = LazyLock::new(|| {
    let script = |algorithm: &Algorithm| Arc::new(Script::for_algorithms(single(*algorithm), [*algorithm]));
    Algorithm::ALL.iter().map(script).collect()
});

/// Scripts for several rules composed so far, by mode.
static LISTS: LazyLock<[RwLock<Lists>; 4]> = LazyLock::new(Default::default);

type Lists = HashMap<Box<[ListedRule]>, Arc<Script>>;

// === impl Script ===

impl Script {
    /// Creates a script from its text.
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        let sha1 = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha1, keeps_strings: false, batched: OnceLock::new() }
    }

    /// Creates a script that reads the states of `algorithms`.
    fn for_algorithms(text: impl Into<Cow<'static, str>>, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        let keeps_strings = algorithms.into_iter().all(|algorithm| algorithm.spec().keeps_strings);
        Self { keeps_strings, ..Self::new(text) }
    }

    /// Script that decides under one rule.
    pub(crate) fn single(algorithm: Algorithm) -> Arc<Self> {
        Arc::clone(&SINGLE[algorithm as usize])
    }

    /// Returns true if all keys are strings, and an empty string counts as a missing key.
    pub(crate) fn keeps_strings(&self) -> bool {
        self.keeps_strings
    }

    /// Script that runs `mode` under several rules. Composed once for each combination.
    pub(crate) fn list(rules: &[ListedRule], mode: ListMode) -> Arc<Self> {
        let lists = &LISTS[mode as usize];
        if let Some(script) = lists.read().get(rules) {
            return Arc::clone(script);
        }
        let algorithms = rules.iter().map(|rule| rule.algorithm);
        let script = Arc::new(Self::for_algorithms(compose(rules, mode), algorithms));
        Arc::clone(lists.write().entry(rules.into()).or_insert(script))
    }

    /// Script that runs this one for many callers.
    pub(crate) fn batched(&self) -> &Arc<Self> {
        self.batched.get_or_init(|| Arc::new(Self::new(batched(&self.text))))
    }

    /// SHA-1 in hexadecimal, for `EVALSHA`.
    pub(crate) fn sha1(&self) -> &str {
        &self.sha1
    }

    /// The call `evalsha` as an `EVAL`, which also loads the script.
    pub(crate) fn eval(&self, evalsha: &Cmd) -> Cmd {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(&*self.text);
        for arg in evalsha.args_iter().skip(2) {
            if let Arg::Simple(arg) = arg {
                cmd.arg(arg);
            }
        }
        cmd
    }

    /// `SCRIPT LOAD` of the script.
    pub(crate) fn load(&self) -> Cmd {
        let mut cmd = redis::cmd("SCRIPT");
        cmd.arg("LOAD").arg(&*self.text);
        cmd
    }
}

/// Returns Lua code that runs `script`, of one rule or a list, for each of many callers at one moment. An error affects
/// its own caller only.
///
/// `KEYS` holds the keys of all callers. `ARGV[1]` and `ARGV[2]` are the numbers of keys and arguments of each caller;
/// their arguments follow. The reply is a list of replies or errors in the order of the callers. Arguments are not
/// validated: this crate writes them.
fn batched(script: &str) -> String {
    let unvalidated =
        script.split_once("-- [validate]\n").and_then(|(parse, rest)| Some((parse, rest.split_once("-- [time]\n")?.1)));
    let script = unvalidated.map_or_else(|| script.to_owned(), |(parse, rest)| [parse, rest].concat());
    let script = script.replace("call('TIME')", "TIME");
    format!(
        "local TIME, unpack = redis.call('TIME'), unpack
local function one(KEYS, ARGV)
{script}
end
local keys, args, replies = tonumber(ARGV[1]), tonumber(ARGV[2]), {{}}
local key, arg = 1, 3
for n = 1, #KEYS / keys do
  local ran, reply = pcall(one, {{unpack(KEYS, key, key + keys - 1)}}, {{unpack(ARGV, arg, arg + args - 1)}})
  if not ran and type(reply) ~= 'table' then reply = {{err = 'ERR ' .. tostring(reply)}} end
  replies[n] = reply
  key, arg = key + keys, arg + args
end
return replies
"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn every_batched_script_reads_the_time_once() {
        for algorithm in Algorithm::ALL {
            let batched = batched(&single(algorithm));
            assert_eq!(batched.matches("call('TIME')").count(), 1, "{algorithm:?}");
            assert!(!batched.contains("-- [validate]") && !batched.contains("#KEYS ~="), "{algorithm:?}");
        }
    }

    #[test]
    fn a_list_is_composed_once() {
        let part = |arg| ListedRule {
            algorithm: Algorithm::Gcra,
            packed_as: Some("a".into()),
            key: 0,
            arg,
            args: 4,
            observed: false,
        };
        let list = |rules: &[ListedRule]| Script::list(rules, ListMode::Take);
        assert!(Arc::ptr_eq(&list(&[part(0), part(4)]), &list(&[part(0), part(4)])));
        assert_ne!(list(&[part(0)]).sha1(), list(&[part(0), part(4)]).sha1());
        for other in [ListMode::Look, ListMode::Batch, ListMode::Return] {
            assert_ne!(list(&[part(0)]).sha1(), Script::list(&[part(0)], other).sha1());
        }
    }
}
