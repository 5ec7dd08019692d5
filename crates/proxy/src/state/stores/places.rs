//! Places of rules in memory: the scopes under which their states stay.
//!
//! A rule counts under its scope. A reload may rename a rule, or move a rule that has no name to another position. The rule
//! then keeps the place of its predecessor, so that nothing is refilled.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_config::{Config, NamedLimit, Route, StoreKind};
use tollgate_filters::key_resolver::KeyResolver;
use tollgate_limiter::rule::{Rule, RuleShape};

/// Rules of the present and of the former configuration with their places.
#[derive(Debug, Default)]
pub(super) struct Places {
    present: Vec<PlacedRule>,
    former: Vec<PlacedRule>,
}

#[derive(Clone, Debug)]
struct PlacedRule {
    /// Scope of its limiter.
    limiter: Arc<str>,
    scope: Arc<str>,
    place: Arc<str>,
    /// True if the file names it.
    is_named: bool,
    /// Rules of the scope: several plans may have one.
    rules: Vec<Rule>,
    key_resolver: Option<KeyResolver>,
    is_in_redis: bool,
}

/// Search for the predecessors of rules.
struct Succession {
    /// Former rules without a successor, by limiter.
    left: HashMap<Arc<str>, Vec<PlacedRule>>,
    /// Predecessors of rules, by the scopes of these.
    predecessors: HashMap<Arc<str>, PlacedRule>,
}

/// Likeness of a rule and its predecessor, from the closest on: equal rules, equal times, the same algorithm.
const LIKENESSES: [fn(&Rule, &Rule) -> bool; 3] =
    [|a, b| a == b, has_equal_times, |a, b| a.algorithm() == b.algorithm()];

impl Places {
    /// Follows a reload of `config`. Returns the scopes that count under another place, with those of the former
    /// configuration, which decides until all workers have the new one.
    pub(super) fn follow(&mut self, config: &Config) -> HashMap<Arc<str>, Arc<str>> {
        let mut rules = declared(config);
        let Succession { predecessors, left } = Succession::of(&rules, std::mem::take(&mut self.present));
        let renamed = rules.iter().filter(|new| predecessors.get(&new.scope).is_some_and(|old| old.scope != new.scope));
        report_renamed(renamed);
        let mut places: HashSet<Arc<str>> = predecessors.values().map(|old| Arc::clone(&old.place)).collect();
        for rule in &mut rules {
            // A copy: a text of an earlier configuration would keep the memory around it from being returned.
            let former = predecessors.get(&rule.scope).map(|old| Arc::from(&*old.place));
            rule.place = former.unwrap_or_else(|| free_place(&rule.scope, &places));
            places.insert(Arc::clone(&rule.place));
        }
        let scopes: HashSet<&Arc<str>> = rules.iter().map(|rule| &rule.scope).collect();
        let all = left.into_values().flatten().chain(predecessors.into_values());
        self.former = all.filter(|old| !scopes.contains(&old.scope)).collect();
        self.present = rules;
        let renamed = self.former.iter().chain(&self.present).filter(|rule| rule.scope != rule.place);
        renamed.map(|rule| (Arc::clone(&rule.scope), Arc::clone(&rule.place))).collect()
    }
}

impl PlacedRule {
    fn has(&self, rule: &Rule, is_alike: fn(&Rule, &Rule) -> bool) -> bool {
        self.rules.iter().any(|other| is_alike(other, rule))
    }
}

impl Succession {
    /// Finds the predecessors of `rules`: rules with their names, or else rules that are like them, first under their own
    /// scopes.
    fn of(rules: &[PlacedRule], former: Vec<PlacedRule>) -> Self {
        let mut succession = Self { left: HashMap::new(), predecessors: HashMap::new() };
        for old in former {
            succession.left.entry(Arc::clone(&old.limiter)).or_default().push(old);
        }
        succession.pair(rules, |old, new| old.scope == new.scope && old.is_named && new.is_named);
        for is_alike in LIKENESSES {
            // A scope stays where it is for any of its plans, and moves only if it does so in all of them.
            succession
                .pair(rules, |old, new| old.scope == new.scope && new.rules.iter().any(|rule| old.has(rule, is_alike)));
            succession.pair(rules, |old, new| {
                old.key_resolver == new.key_resolver && new.rules.iter().all(|rule| old.has(rule, is_alike))
            });
        }
        succession.pair(rules, |old, new| old.scope == new.scope);
        succession
    }

    /// Finds a predecessor for each rule that has none yet.
    fn pair(&mut self, rules: &[PlacedRule], precedes: impl Fn(&PlacedRule, &PlacedRule) -> bool) {
        for new in rules {
            if !self.predecessors.contains_key(&new.scope)
                && let Some(left) = self.left.get_mut(&new.limiter)
                && let Some(at) = left.iter().position(|old| precedes(old, new))
            {
                self.predecessors.insert(Arc::clone(&new.scope), left.remove(at));
            }
        }
    }
}

/// Logs rules that continue a former rule under another name: Redis knows rules by their names.
fn report_renamed<'r>(renamed: impl Iterator<Item = &'r PlacedRule>) {
    let mut in_redis = renamed.filter(|rule| rule.is_in_redis);
    if let Some(first) = in_redis.next() {
        let (rules, first) = (1 + in_redis.count(), &first.scope);
        tracing::warn!(rules, %first, "limits begin full in redis: their rules have other names than before");
    }
}

/// Returns the rules of `config`, one for each scope. Rules with a shared bucket keep its name.
fn declared(config: &Config) -> Vec<PlacedRule> {
    let (mut positions, mut rules) = (HashMap::new(), Vec::<PlacedRule>::new());
    for naming in config.routes.iter().flat_map(Route::rate_limiters) {
        for NamedLimit { scope, limit, is_named, .. } in naming.all() {
            if scope.starts_with('#') {
                continue;
            }
            let at = *positions.entry(Arc::clone(&scope)).or_insert(rules.len());
            match rules.get_mut(at) {
                Some(placed) => placed.rules.push(limit.rule.clone()),
                None => rules.push(PlacedRule {
                    limiter: naming.scope(),
                    place: Arc::clone(&scope),
                    scope,
                    is_named,
                    rules: vec![limit.rule.clone()],
                    key_resolver: limit.key_resolver.clone(),
                    is_in_redis: config.redis.is_some() && naming.limiter.store != Some(StoreKind::Memory),
                }),
            }
        }
    }
    rules
}

/// Returns `scope`, or a text behind it that is no place of another rule.
fn free_place(scope: &Arc<str>, taken: &HashSet<Arc<str>>) -> Arc<str> {
    let mut place = Arc::clone(scope);
    while taken.contains(&place) {
        place = format!("{place}#").into();
    }
    place
}

/// Returns true if both rules have one algorithm and one window, calendar or rate.
fn has_equal_times(a: &Rule, b: &Rule) -> bool {
    a.algorithm() == b.algorithm()
        && match (a.shape(), b.shape()) {
            (RuleShape::Bucket { rate, period, .. }, RuleShape::Bucket { rate: rate_b, period: period_b, .. })
            | (RuleShape::Pace { rate, period, .. }, RuleShape::Pace { rate: rate_b, period: period_b, .. }) => {
                (rate, period) == (rate_b, period_b)
            }
            (RuleShape::Window { window, .. }, RuleShape::Window { window: window_b, .. }) => window == window_b,
            (RuleShape::Calendar { calendar, .. }, RuleShape::Calendar { calendar: calendar_b, .. }) => {
                calendar == calendar_b
            }
            (RuleShape::Total { .. }, RuleShape::Total { .. }) => true,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use tollgate_limiter::key::BucketKey;
    use tollgate_limiter::store::{Check, Decision, Store};

    use crate::state::stores::SharedStores;

    const HOURLY: &str = "algorithm: fixed-window, limit: 20, window: 1h";
    const DAILY: &str = "algorithm: fixed-window, limit: 1000, window: 1d";
    const BUCKET: &str = "replenish-rate: 1, period: 1h, burst-capacity: 20";
    const SLOW: &str = "replenish-rate: 1000, period: 24h, burst-capacity: 1000";

    fn config(arguments: &str) -> tollgate_config::Config {
        let text = format!(
            "routes: [{{id: a, uri: 'echo:', predicates: [Path=/a], filters: [{{name: RequestRateLimiter, args: \
             {{key-resolver: ip, {arguments}}}}}]}}]\n"
        );
        tollgate_config::parse("tollgate.yaml", &text, &|_| None).unwrap_or_else(|_| panic!("{text}")).config
    }

    /// Returns the number of admitted requests of 25, all rules of the limiter or of `plan` together.
    fn burst(stores: &SharedStores, config: &tollgate_config::Config, plan: Option<&str>) -> usize {
        let naming = config.routes[0].rate_limiters().next().unwrap();
        let rules: Vec<_> = naming.all().into_iter().filter(|named| named.plan == plan).collect();
        let check = |named: &tollgate_config::NamedLimit<'_>| named.limit.rule.clone();
        let owned: Vec<_> = rules.iter().map(check).collect();
        let checks: Vec<_> = rules
            .iter()
            .zip(&owned)
            .map(|(named, rule)| Check { key: BucketKey { scope: &named.scope, id: b"me" }, rule, cost: 1 })
            .collect();
        let is_admitted = |_: &usize| match stores.memory.decide(&checks, &[]) {
            Decision::Ready(verdict) => verdict.is_allowed(),
            Decision::Pending(_) => panic!("memory decides at once"),
        };
        (0..25).filter(is_admitted).count()
    }

    /// Runs each configuration in turn, with a burst under each. Returns the admitted requests.
    fn reloads(all: &[String]) -> Vec<usize> {
        reloads_of(None, all)
    }

    fn reloads_of(plan: Option<&str>, all: &[String]) -> Vec<usize> {
        let stores = SharedStores::new(&config(&all[0]));
        all.iter()
            .map(|arguments| {
                let config = config(arguments);
                stores.declare_limiters(&config);
                burst(&stores, &config, plan)
            })
            .collect()
    }

    fn list(rules: &[(&str, &str)]) -> String {
        let rules: Vec<_> = rules.iter().map(|(name, rule)| format!("{{name: {name}, {rule}}}")).collect();
        format!("limits: [{}]", rules.join(", "))
    }

    fn unnamed(rules: &[&str]) -> String {
        format!("limits: [{{{}}}]", rules.join("}, {"))
    }

    #[test]
    fn a_second_rule_that_comes_and_goes_refills_nothing() {
        for (first, second) in [(HOURLY, DAILY), (HOURLY, SLOW), (BUCKET, SLOW), (BUCKET, DAILY)] {
            for lists in [[("x", first), ("y", second)], [("y", second), ("x", first)]] {
                let admitted = reloads(&[first.to_owned(), list(&lists), first.to_owned(), list(&lists)]);
                assert_eq!(admitted, [20, 0, 0, 0], "{first} and {lists:?}");
                let admitted = reloads(&[list(&lists), first.to_owned(), list(&lists)]);
                assert_eq!(admitted, [20, 0, 0], "{lists:?} and {first}");
            }
            for rules in [[first, second], [second, first]] {
                let admitted = reloads(&[first.to_owned(), unnamed(&rules), first.to_owned(), unnamed(&rules)]);
                assert_eq!(admitted, [20, 0, 0, 0], "{first} and {rules:?} without names");
                let admitted = reloads(&[unnamed(&rules), first.to_owned(), unnamed(&rules)]);
                assert_eq!(admitted, [20, 0, 0], "{rules:?} without names and {first}");
            }
        }
    }

    #[test]
    fn renamed_and_reordered_rules_keep_their_states() {
        for (first, second) in [(HOURLY, DAILY), (BUCKET, SLOW)] {
            let admitted = reloads(&[
                list(&[("a", first), ("b", second)]),
                list(&[("b", second), ("a", first)]),
                list(&[("hour", first), ("b", second)]),
                list(&[("day", second), ("hour", first)]),
                list(&[("a", first), ("b", second)]),
                unnamed(&[first, second]),
                unnamed(&[second, first]),
                unnamed(&[second, BUCKET, first]),
            ]);
            assert_eq!(admitted, [20, 0, 0, 0, 0, 0, 0, 0], "{first} and {second}");
        }
    }

    #[test]
    fn no_text_of_an_earlier_configuration_stays_in_use() {
        for other in [HOURLY.to_owned(), list(&[("x", HOURLY), ("y", DAILY)]), unnamed(&[DAILY, HOURLY])] {
            let (first, next) = (config(HOURLY), config(&other));
            let (stores, id) = (SharedStores::new(&first), std::sync::Arc::downgrade(&first.routes[0].id));
            drop(first);
            (0..2).for_each(|_| stores.declare_limiters(&next));
            assert!(id.upgrade().is_none(), "{other}");
        }
    }

    #[test]
    fn a_rule_with_the_former_name_of_another_one_has_a_place_of_its_own() {
        let admitted = reloads(&[
            HOURLY.to_owned(),
            list(&[("x", HOURLY), ("y", DAILY)]),
            // The limiter's own scope is back in a plan, while `x` stands in its place.
            format!("{}, plan-resolver: 'header:x-plan', plans: {{gold: {{{HOURLY}}}}}", list(&[("x", HOURLY)])),
        ]);
        assert_eq!(admitted, [20, 0, 0]);
    }

    #[test]
    fn a_plan_keeps_its_states_while_rules_beside_it_move() {
        let gold = format!("plan-resolver: path, plans: {{gold: {{{}}}}}", unnamed(&[HOURLY, SLOW]));
        let beside = [unnamed(&[HOURLY, BUCKET]), unnamed(&[BUCKET, HOURLY]), list(&[("x", HOURLY)]), SLOW.to_owned()];
        let admitted = reloads_of(Some("gold"), &beside.map(|rules| format!("{rules}, {gold}")));
        assert_eq!(admitted, [20, 0, 0, 0]);
    }
}
