#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;

const GOOD: Outcome = Outcome { failed: false, slow: false };
const BAD: Outcome = Outcome { failed: true, slow: false };
const SLOW: Outcome = Outcome { failed: false, slow: true };

fn calls(size: u32) -> WindowSize {
    WindowSize::Calls(NonZeroU32::new(size).unwrap())
}

fn seconds(size: u32) -> WindowSize {
    WindowSize::Seconds(NonZeroU32::new(size).unwrap())
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Admits calls and ends them at `now`.
fn run(machine: &mut StateMachine, now: Duration, outcomes: &[Outcome]) {
    for outcome in outcomes {
        let epoch = machine.admit(now).unwrap();
        machine.record(now, epoch, *outcome);
    }
}

fn small() -> Rules {
    Rules { window: calls(4), minimum_calls: 2, trial_calls: 2, ..Rules::default() }
}

#[test]
fn the_defaults_open_at_the_hundredth_call() {
    let mut machine = StateMachine::new(Rules::default());
    run(&mut machine, secs(0), &[BAD; 99]);
    assert_eq!((machine.state(secs(0)), machine.failure_rate(secs(0))), (State::Closed, None));
    run(&mut machine, secs(0), &[BAD]);
    assert_eq!(machine.state(secs(0)), State::Open);
    assert_eq!(machine.admit(secs(59)), Err(secs(1)));
    for _ in 0..10 {
        machine.admit(secs(60)).unwrap();
    }
    assert_eq!(machine.admit(secs(60)), Err(Duration::ZERO), "ten trial calls");
    assert_eq!(machine.state(secs(60)), State::HalfOpen);
}

#[test]
fn only_calls_in_the_window_count_and_the_threshold_is_inclusive() {
    let mut machine = StateMachine::new(Rules { failure_rate: 75.0, ..small() });
    run(&mut machine, secs(0), &[GOOD, GOOD, GOOD, BAD, BAD]);
    assert_eq!(machine.failure_rate(secs(0)), Some(50.0));
    run(&mut machine, secs(0), &[BAD]);
    assert_eq!(machine.state(secs(0)), State::Open, "3 of 4");
}

#[test]
fn a_minimum_above_the_window_size_is_the_window_size() {
    let mut machine = StateMachine::new(Rules { minimum_calls: 100, ..small() });
    run(&mut machine, secs(0), &[BAD; 4]);
    assert_eq!(machine.state(secs(0)), State::Open);
    // A window of time can contain any number of calls.
    let mut machine = StateMachine::new(Rules { window: seconds(4), minimum_calls: 100, ..small() });
    run(&mut machine, secs(0), &[BAD; 99]);
    assert_eq!(machine.state(secs(0)), State::Closed);
}

#[test]
fn slow_calls_have_their_own_threshold() {
    let mut machine = StateMachine::new(Rules { slow_rate: 50.0, ..small() });
    run(&mut machine, secs(0), &[GOOD, SLOW]);
    assert_eq!(machine.state(secs(0)), State::Open);
}

#[test]
fn expired_seconds_do_not_count() {
    let mut machine = StateMachine::new(Rules { window: seconds(2), minimum_calls: 3, ..small() });
    run(&mut machine, secs(10), &[BAD, BAD]);
    run(&mut machine, secs(12), &[BAD]);
    assert_eq!(machine.failure_rate(secs(12)), None, "second 10 has expired");
    run(&mut machine, secs(13), &[BAD, BAD]);
    assert_eq!(machine.state(secs(13)), State::Open);
}

#[test]
fn trial_calls_open_or_close_the_breaker() {
    for (trials, state) in
        [(&[GOOD, GOOD][..], State::Closed), (&[GOOD, BAD], State::Open), (&[SLOW, GOOD], State::Closed)]
    {
        let mut machine = StateMachine::new(small());
        run(&mut machine, secs(0), &[BAD, BAD]);
        run(&mut machine, secs(60), trials);
        assert_eq!(machine.state(secs(60)), state, "{trials:?}");
    }
}

#[test]
fn a_lower_minimum_needs_fewer_trial_calls() {
    let mut machine = StateMachine::new(Rules { trial_calls: 10, ..small() });
    run(&mut machine, secs(0), &[BAD, BAD]);
    run(&mut machine, secs(60), &[GOOD, GOOD]);
    assert_eq!(machine.state(secs(60)), State::Closed);
}

#[test]
fn a_released_trial_permits_another() {
    let mut machine = StateMachine::new(small());
    run(&mut machine, secs(0), &[BAD, BAD]);
    let (first, _second) = (machine.admit(secs(60)).unwrap(), machine.admit(secs(60)).unwrap());
    assert!(machine.admit(secs(60)).is_err());
    machine.release(first);
    assert!(machine.admit(secs(60)).is_ok());
}

#[test]
fn calls_of_an_earlier_state_do_not_count() {
    let mut machine = StateMachine::new(small());
    let late = machine.admit(secs(0)).unwrap();
    run(&mut machine, secs(0), &[BAD, BAD]);
    machine.record(secs(1), late, GOOD);
    run(&mut machine, secs(60), &[GOOD]);
    machine.record(secs(60), late, GOOD);
    assert_eq!(machine.state(secs(60)), State::HalfOpen);
    machine.release(late);
    machine.admit(secs(60)).unwrap();
    assert!(machine.admit(secs(60)).is_err(), "the late call releases no trial");
}

#[test]
fn unfinished_trials_open_the_breaker_again() {
    let mut machine = StateMachine::new(Rules { trial_wait: Some(secs(5)), ..small() });
    run(&mut machine, secs(0), &[BAD, BAD]);
    machine.admit(secs(60)).unwrap();
    assert_eq!((machine.state(secs(64)), machine.state(secs(65))), (State::HalfOpen, State::Open));
    assert_eq!(machine.admit(secs(124)), Err(secs(1)));
    assert!(machine.admit(secs(125)).is_ok());
}

#[test]
fn the_automatic_transition_needs_no_call() {
    for (automatic, state) in [(false, State::Open), (true, State::HalfOpen)] {
        let mut machine = StateMachine::new(Rules { automatic, ..small() });
        run(&mut machine, secs(0), &[BAD, BAD]);
        assert_eq!((machine.state(secs(59)), machine.state(secs(60))), (State::Open, state));
    }
}

#[test]
fn waits_grow_until_the_breaker_closes() {
    let wait = OpenWait { first: secs(10), multiplier: 2.0, max: Some(secs(30)) };
    let mut machine = StateMachine::new(Rules { wait, trial_calls: 1, ..small() });
    run(&mut machine, secs(0), &[BAD, BAD]);
    let mut now = secs(0);
    for expected in [10, 20, 30, 30] {
        assert_eq!(machine.admit(now), Err(secs(expected)));
        now += secs(expected);
        run(&mut machine, now, &[BAD]);
    }
    now += secs(30);
    run(&mut machine, now, &[GOOD, BAD, BAD]);
    assert_eq!(machine.admit(now), Err(secs(10)));
}

/// A reference model that keeps every call and counts all of them each time.
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
    fn verdict(&self, now: Duration) -> Option<bool> {
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

    fn go(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
        self.ended.clear();
        self.admitted = 0;
    }

    fn open(&mut self, now: Duration) {
        self.go(State::Open);
        let wait = self.rules.wait.first.as_secs_f64() * self.rules.wait.multiplier.powi(self.opened);
        self.until = now + Duration::from_secs_f64(wait).min(self.rules.wait.max.unwrap_or(Duration::MAX));
        self.opened += 1;
    }

    fn settle(&mut self, now: Duration) {
        if let Some(wait) = self.rules.trial_wait
            && self.state == State::HalfOpen
            && self.since + wait <= now
        {
            self.open(self.since + wait);
        }
    }

    fn admit(&mut self, now: Duration) -> Option<u64> {
        self.settle(now);
        if self.state == State::Open && self.until <= now {
            self.go(State::HalfOpen);
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
            self.settle(now);
        }
        if epoch != self.epoch {
            return;
        }
        let Some(outcome) = outcome else {
            self.admitted -= 1;
            return;
        };
        self.ended.push((now, outcome));
        match (self.state, self.verdict(now)) {
            (_, Some(true)) => self.open(now),
            (State::HalfOpen, Some(false)) => {
                self.opened = 0;
                self.go(State::Closed);
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
        let (mut now, mut under_way) = (secs(0), Vec::new());
        for step in steps {
            match step {
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Admit => {
                    let admitted = machine.admit(now).ok();
                    prop_assert_eq!(admitted, model.admit(now));
                    under_way.extend(admitted);
                }
                Step::End(at, outcome) if !under_way.is_empty() => {
                    let epoch = under_way.swap_remove(at % under_way.len());
                    match outcome {
                        Some(outcome) => machine.record(now, epoch, outcome),
                        None => machine.release(epoch),
                    }
                    model.end(now, epoch, outcome);
                }
                Step::End(..) => {}
            }
            model.settle(now);
            prop_assert_eq!(machine.state(now), model.state);
        }
    }
}
