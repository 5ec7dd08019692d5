use proptest::prelude::*;

use super::*;

/// Reference model: all assigned turns, and the first free interval between them.
#[derive(Default)]
struct Model {
    turns: Vec<(u64, u64)>,
}

impl Model {
    fn first_free(&self, now_us: u64, length_us: u64) -> u64 {
        let ends = self.turns.iter().map(|&(_, to)| to).filter(|&to| to > now_us);
        let free = |&at: &u64| self.turns.iter().all(|&(from, to)| to <= at || at + length_us <= from);
        ends.chain([now_us]).filter(free).min().unwrap()
    }

    fn free_places(&self, rule: &LeakyBucket, now_us: u64) -> u64 {
        let mut queue = Self { turns: self.turns.clone() };
        (0..).find(|_| queue.take(rule, now_us, 1).is_err()).unwrap()
    }

    /// Returns the time of the turn, or the time until it is within the longest delay.
    fn take(&mut self, rule: &LeakyBucket, now_us: u64, cost: u64) -> Result<u64, u64> {
        let at = self.first_free(now_us, cost * rule.interval_us());
        let last = now_us + (rule.max_queue() * rule.interval_us()).min(rule.max_wait().as_micros() as u64);
        if at > last {
            return Err(at - last);
        }
        self.turns.push((at, at + cost * rule.interval_us()));
        Ok(at)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Request(u64),
    /// A waiting request leaves.
    Leave(prop::sample::Index),
    Rule(u64, u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let gap = prop_oneof![3 => Just(0), 2 => 1u64..200_000, 1 => 1u64..3_000_000];
    let step = prop_oneof![
        5 => (1u64..5).prop_map(Step::Request),
        3 => any::<prop::sample::Index>().prop_map(Step::Leave),
        1 => (1u64..50, 0u64..3_000, 0u64..30).prop_map(|(rate, wait, queue)| Step::Rule(rate, wait, queue)),
    ];
    prop::collection::vec((gap, step), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn assigns_the_turns_of_the_reference_model(steps in steps()) {
        let (mut rule, mut state, mut model, mut now_us) = (leaky_bucket(10, 1_000, 8), None::<QueueState>, Model::default(), 1u64);
        // Turn, cost and rule of requests that have not left.
        let mut assigned: Vec<(u64, u64, LeakyBucket)> = Vec::new();
        for (gap, step) in steps {
            now_us += gap;
            match step {
                Step::Rule(rate, wait, queue) => rule = leaky_bucket(rate, wait, queue),
                Step::Leave(index) => {
                    let waiting: Vec<usize> = (0..assigned.len()).filter(|&n| assigned[n].0 > now_us).collect();
                    if waiting.is_empty() { continue; }
                    let (turn, cost, rule) = assigned.remove(waiting[index.index(waiting.len())]);
                    model.turns.retain(|&(from, _)| from != turn);
                    let change = rule.settle(state.as_ref(), Moment::at(now_us), -(cost as i64), turn);
                    prop_assert!(change.is_some());
                    state = change;
                }
                Step::Request(cost) => {
                    let (verdict, change) = rule.decide(state.as_ref(), Moment::at(now_us), cost);
                    state = change.or(state);
                    let expected = model.take(&rule, now_us, cost);
                    match (verdict.outcome, expected) {
                        (Outcome::NeverAdmitted, _) if cost > rule.capacity() => {
                            model.turns.truncate(assigned.len());
                        }
                        (Outcome::Allowed, Ok(turn)) => {
                            prop_assert_eq!((verdict.counted_at_us, verdict.delay.as_micros() as u64), (turn, turn - now_us));
                            assigned.push((turn, cost, rule.clone()));
                        }
                        (Outcome::Denied { retry_after }, Err(wait_us)) => {
                            prop_assert_eq!(retry_after.as_micros() as u64, wait_us);
                        }
                        (outcome, expected) => prop_assert!(false, "{outcome:?}, not {expected:?}"),
                    }
                    prop_assert_eq!(verdict.remaining, model.free_places(&rule, now_us));
                }
            }
            // No two remaining turns are closer than the duration of the first.
            let mut turns: Vec<_> = assigned.iter().map(|(turn, cost, rule)| (*turn, turn + cost * rule.interval_us())).collect();
            turns.sort_unstable();
            prop_assert!(turns.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{turns:?}");
        }
    }

    #[test]
    fn admits_again_after_exactly_the_promised_wait(steps in steps(), warm_up_ms in prop_oneof![Just(0), 1u64..20_000]) {
        let rule = leaky_bucket(7, 1_300, 5).with_warm_up(Duration::from_millis(warm_up_ms)).unwrap();
        let (mut state, mut now_us) = (None::<QueueState>, 1u64);
        for (gap, step) in steps {
            now_us += gap;
            let Step::Request(cost) = step else { continue };
            let (verdict, change) = rule.decide(state.as_ref(), Moment::at(now_us), cost);
            state = change.or(state);
            let Outcome::Denied { retry_after } = verdict.outcome else { continue };
            let then_us = now_us + retry_after.as_micros() as u64;
            prop_assert_eq!(rule.decide(state.as_ref(), Moment::at(then_us), cost).0.outcome, Outcome::Allowed);
            let early = rule.decide(state.as_ref(), Moment::at(then_us - 1), cost).0.outcome;
            prop_assert_eq!(early, Outcome::Denied { retry_after: Duration::from_micros(1) });
        }
    }
}
