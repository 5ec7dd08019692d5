//! List of the algorithms: a rule, its settings and its name.

use super::{FixedWindow, LeakyBucket, Quota, SlidingWindowCounter, SlidingWindowLog, TokenBucket};

/// Passes the algorithms to the macro `$then`: for each type of settings, the rules that have it and their names in
/// configuration and metrics.
macro_rules! algorithms {
    ($then:ident [$($args:tt)*]) => {
        $crate::rule::list::$then! {
            [$($args)*]
            TokenBucket {
                /// A bucket of tokens that refills continuously. Redis keeps it in the keys of Spring Cloud Gateway.
                TokenBucket = "token-bucket",
                /// The verdicts of a token bucket from one timestamp per key (GCRA, ITU-T I.371): half the memory in Redis.
                Gcra = "gcra",
            }
            FixedWindow {
                /// A limit per window. A window opens with the first request or on the clock.
                FixedWindow = "fixed-window",
            }
            SlidingWindowLog {
                /// A limit within any stretch as long as the window, from a log of admitted tokens.
                SlidingWindowLog = "sliding-window-log",
            }
            SlidingWindowCounter {
                /// An approximate limit within any stretch as long as the window, estimated from two counters.
                SlidingWindowCounter = "sliding-window-counter",
            }
            LeakyBucket {
                /// One request at a time, at even intervals. Requests wait for their turn.
                LeakyBucket = "leaky-bucket",
            }
            Quota {
                /// A prepaid total that nothing refills until a new period begins.
                Quota = "quota",
            }
        }
    };
}
pub(crate) use algorithms;

/// Defines [`Rule`] and [`Algorithm`].
macro_rules! define_algorithms {
    ([] $($settings:ident { $($(#[$doc:meta])* $rule:ident = $name:literal,)+ })+) => {
        /// A rate limit: an algorithm and its numbers.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Rule {
            $($($(#[$doc])* $rule($settings),)+)+
        }

        $(impl From<$settings> for Rule {
            fn from(settings: $settings) -> Self {
                Self::$settings(settings)
            }
        })+

        $crate::labelled! {
            /// Name of an algorithm.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum Algorithm {
                $($(#[doc = concat!("[`Rule::", stringify!($rule), "`].")] $rule = $name,)+)+
            }
        }

        impl Rule {
            /// Returns the algorithm of the rule.
            #[must_use]
            pub fn algorithm(&self) -> Algorithm {
                match self {
                    $($(Self::$rule(_) => Algorithm::$rule,)+)+
                }
            }
        }
    };
}
pub(crate) use define_algorithms;
algorithms!(define_algorithms []);

/// Evaluates `$body` with `$inner` bound to the settings of `$rule`, for every algorithm.
macro_rules! by_algorithm {
    ($rule:expr, $inner:ident => $body:expr) => {
        $crate::rule::list::algorithms!(match_rule [$rule, $inner, $body])
    };
}
pub(crate) use by_algorithm;

/// Matches on the rule for [`by_algorithm`].
macro_rules! match_rule {
    ([$on:expr, $inner:ident, $body:expr] $($settings:ident { $($(#[$doc:meta])* $rule:ident = $name:literal,)+ })+) => {
        match $on {
            $($($crate::rule::Rule::$rule($inner))|+ => $body,)+
        }
    };
}
pub(crate) use match_rule;

/// Makes a rule of the same algorithm from `$body`, a result, with `$inner` bound to the settings of `$rule`.
macro_rules! map_rule {
    ($on:expr, $inner:ident => $body:expr) => {
        $crate::rule::list::algorithms!(match_and_map_rule [$on, $inner, $body])
    };
}
pub(crate) use map_rule;

/// Matches on the rule for [`map_rule`].
macro_rules! match_and_map_rule {
    ([$on:expr, $inner:ident, $body:expr] $($settings:ident { $($(#[$doc:meta])* $rule:ident = $name:literal,)+ })+) => {
        match $on {
            $($($crate::rule::Rule::$rule($inner) => $body.map($crate::rule::Rule::$rule),)+)+
        }
    };
}
pub(crate) use match_and_map_rule;
