#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::num::NonZeroU32;

use super::*;

mod model;

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

#[test]
fn a_forced_state_holds_until_its_end_and_changes_no_count() {
    let mut machine = StateMachine::new(small());
    run(&mut machine, secs(0), &[BAD]);
    machine.force(ForcedState::Open, secs(10));
    assert_eq!((machine.state(secs(9)), machine.admit(secs(9))), (State::Open, Err(secs(1))));
    assert_eq!(machine.forced(secs(9)), Some((ForcedState::Open, secs(1))));
    assert_eq!((machine.state(secs(10)), machine.forced(secs(10))), (State::Closed, None));
    machine.force(ForcedState::Closed, secs(20));
    run(&mut machine, secs(11), &[BAD; 9]);
    assert_eq!(machine.state(secs(20)), State::Closed, "failures under force do not count");
    run(&mut machine, secs(20), &[BAD]);
    assert_eq!(machine.state(secs(20)), State::Open, "those before and after do");
    machine.force(ForcedState::Closed, secs(100));
    machine.end_force(secs(30));
    assert_eq!(machine.admit(secs(30)), Err(secs(50)), "its own state goes on");
}

#[test]
fn trial_calls_start_again_after_a_forced_state() {
    let mut machine = StateMachine::new(Rules { trial_wait: Some(secs(5)), ..small() });
    run(&mut machine, secs(0), &[BAD, BAD]);
    let trials = [machine.admit(secs(60)).unwrap(), machine.admit(secs(60)).unwrap()];
    assert!(machine.admit(secs(60)).is_err());
    machine.force(ForcedState::Closed, secs(70));
    let forced = machine.admit(secs(61)).unwrap();
    for epoch in trials {
        machine.record(secs(61), epoch, BAD);
    }
    assert_eq!(machine.state(secs(74)), State::HalfOpen, "the trial has its full time");
    machine.record(secs(74), forced, BAD);
    machine.release(forced);
    run(&mut machine, secs(74), &[GOOD, GOOD]);
    assert_eq!(machine.state(secs(74)), State::Closed);
}
