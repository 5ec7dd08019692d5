//! A reference model of the state machine, and a comparison with it.

use proptest::prelude::*;

use super::*;

/// A model that keeps every call and counts all of them each time.
struct Model {
    rules: Rules,
    state: State,
    until: Duration,
    since: Duration,
    admitted: u32,
    opened: i32,
    epoch: u64,
    ended: Vec<(Duration, Outcome)>,
}

impl Model {
    fn should_open(&self, now: Duration) -> Option<bool> {
        let (window, minimum): (Vec<Outcome>, u32) = match (self.state, self.rules.window) {
            (State::HalfOpen, _) => (
                self.ended.iter().map(|(_, outcome)| *outcome).collect(),
                self.rules.minimum_calls.min(self.rules.trial_calls),
            ),
            (_, WindowSize::Calls(size)) => {
                let size = size.get();
                let last = self.ended.iter().rev().take(size as usize).map(|(_, outcome)| *outcome).collect();
                (last, self.rules.minimum_calls.min(size))
            }
            (_, WindowSize::Seconds(size)) => {
                let oldest = (now.as_secs() + 1).saturating_sub(u64::from(size.get()));
                let recent = self.ended.iter().filter(|(at, _)| at.as_secs() >= oldest);
                (recent.map(|(_, outcome)| *outcome).collect(), self.rules.minimum_calls)
            }
        };
        if window.is_empty() || window.len() < minimum as usize {
            return None;
        }
        let rate =
            |of: fn(&Outcome) -> bool| window.iter().filter(|o| of(o)).count() as f64 * 100.0 / window.len() as f64;
        Some(rate(|o| o.failed) >= self.rules.failure_rate || rate(|o| o.slow) >= self.rules.slow_rate)
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
        self.ended.clear();
        self.admitted = 0;
    }

    fn open(&mut self, now: Duration) {
        self.enter(State::Open);
        let wait = self.rules.wait.first.as_secs_f64() * self.rules.wait.multiplier.powi(self.opened);
        self.until = now + Duration::from_secs_f64(wait).min(self.rules.wait.max.unwrap_or(Duration::MAX));
        self.opened += 1;
    }

    fn advance(&mut self, now: Duration) {
        if let Some(wait) = self.rules.trial_wait
            && self.state == State::HalfOpen
            && self.since + wait <= now
        {
            self.open(self.since + wait);
        }
    }

    fn admit(&mut self, now: Duration) -> Option<u64> {
        self.advance(now);
        if self.state == State::Open && self.until <= now {
            self.enter(State::HalfOpen);
            self.since = now;
        }
        let admits = match self.state {
            State::Closed => true,
            State::Open => false,
            State::HalfOpen => self.admitted < self.rules.trial_calls,
        };
        self.admitted += u32::from(admits);
        admits.then_some(self.epoch)
    }

    fn end(&mut self, now: Duration, epoch: u64, outcome: Option<Outcome>) {
        if outcome.is_some() {
            self.advance(now);
        }
        if epoch != self.epoch {
            return;
        }
        let Some(outcome) = outcome else {
            self.admitted -= 1;
            return;
        };
        self.ended.push((now, outcome));
        match (self.state, self.should_open(now)) {
            (_, Some(true)) => self.open(now),
            (State::HalfOpen, Some(false)) => {
                self.opened = 0;
                self.enter(State::Closed);
            }
            _ => {}
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Admit,
    End(usize, Option<Outcome>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = (any::<bool>(), any::<bool>()).prop_map(|(failed, slow)| Outcome { failed, slow });
    let step = prop_oneof![
        2 => (0u64..3_000).prop_map(Step::Wait),
        5 => Just(Step::Admit),
        5 => (any::<usize>(), prop_oneof![5 => outcome.prop_map(Some), 1 => Just(None)]).prop_map(|(at, o)| Step::End(at, o)),
    ];
    proptest::collection::vec(step, 0..200)
}

fn rules() -> impl Strategy<Value = Rules> {
    let window = prop_oneof![(1u32..8).prop_map(calls), (1u32..8).prop_map(seconds)];
    let wait = (1u64..4, 1u32..3, proptest::option::of(1u64..6)).prop_map(|(first, by, max)| OpenWait {
        first: secs(first),
        multiplier: f64::from(by),
        max: max.map(secs),
    });
    (window, 1u32..8, 1u32..=100, 1u32..=100, wait, 1u32..5, proptest::option::of(1u64..4)).prop_map(
        |(window, minimum_calls, failure_rate, slow_rate, wait, trial_calls, trial_wait)| Rules {
            window,
            minimum_calls,
            failure_rate: f64::from(failure_rate),
            slow_rate: f64::from(slow_rate),
            wait,
            trial_calls,
            trial_wait: trial_wait.map(secs),
            ..Rules::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_state_machine_agrees_with_the_model(rules in rules(), steps in steps()) {
        let mut machine = StateMachine::new(rules.clone());
        let mut model = Model {
            rules, state: State::Closed, until: secs(0), since: secs(0), admitted: 0, opened: 0, epoch: 0, ended: Vec::new(),
        };
        let (mut now, mut in_flight) = (secs(0), Vec::new());
        for step in steps {
            match step {
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Admit => {
                    let admitted = machine.admit(now).ok();
                    prop_assert_eq!(admitted, model.admit(now));
                    in_flight.extend(admitted);
                }
                Step::End(at, outcome) if !in_flight.is_empty() => {
                    let epoch = in_flight.swap_remove(at % in_flight.len());
                    match outcome {
                        Some(outcome) => machine.record(now, epoch, outcome),
                        None => machine.release(epoch),
                    }
                    model.end(now, epoch, outcome);
                }
                Step::End(..) => {}
            }
            model.advance(now);
            prop_assert_eq!(machine.state(now), model.state);
        }
    }
}
