//! Tests of the composition.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

#[test]
fn every_script_has_its_sections_in_order() {
    for algorithm in Algorithm::ALL {
        let sections = Sections::of(algorithm);
        assert!(sections.parse.contains("cost = tonumber") || sections.parse.contains("cost"), "{algorithm:?}");
        assert!(sections.time.contains("call('TIME')"), "{algorithm:?}");
        assert!(sections.decide.contains("allowed"), "{algorithm:?}");
        assert!(sections.commit.trim_end().ends_with("end"), "{algorithm:?}");
        assert_eq!(sections.reply.split(',').count(), 5, "{algorithm:?}");
    }
}

#[test]
fn keys_and_arguments_are_relocated_together() {
    let rule = ListedRule { algorithm: Algorithm::Gcra, packed_as: None, key: 3, arg: 10, args: 4, observed: false };
    assert_eq!(rule.relocate("a(KEYS[1], ARGV[4]) KEYS[2]"), "a(KEYS[4], ARGV[14]) KEYS[5]");
    assert_eq!(rule.relocate("tonumber(ARGV[5] or 1)"), "tonumber(nil or 1)", "the next rule's");
}

#[test]
fn scripts_that_keep_one_string_are_packable() {
    for algorithm in Algorithm::ALL {
        let text = algorithm.spec().script;
        let uses = [READ, WRITE].map(|line| text.matches(line).count());
        let only_these = text.matches("KEYS[").count() == 1 + uses[0] + uses[1] && !uses.contains(&0);
        assert_eq!(only_these, algorithm.spec().packable, "{algorithm:?}");
    }
}

#[test]
fn observed_rules_wait_for_the_enforced_ones_and_deny_nothing() {
    let rule = |key, observed| ListedRule {
        algorithm: Algorithm::Gcra,
        packed_as: None,
        key,
        arg: 4 * key,
        args: 4,
        observed,
    };
    let enforced = compose(&[rule(0, false), rule(1, false)], ListMode::Take);
    assert!(!enforced.contains("observed"), "{enforced}");
    let mixed = compose(&[rule(0, false), rule(1, true)], ListMode::Take);
    assert_eq!(mixed.matches("all = all and").count(), 1, "{mixed}");
    assert_eq!(mixed.matches("observed = observed and").count(), 1, "{mixed}");
}
