//! Replays the corpus of each fuzz target, and changes of it. `fuzz/run TARGET` runs the same targets with libFuzzer.
//!
//! `TOLLGATE_MUTATIONS=1000000 cargo test --test fuzzing` runs longer, and `TOLLGATE_FUZZ_SECONDS=60` changes inputs for a
//! minute per target. `TOLLGATE_SEED` selects other changes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, unreachable_pub, missing_docs)]

#[cfg(feature = "jwt")]
#[path = "targets/jwt.rs"]
mod jwt;
mod mutate;
mod targets;

use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

/// Changed inputs per target.
const MUTATIONS: usize = 30_000;

/// Runs the corpus of `target` and changes of it, with a fixed seed.
fn replay(target: &str, run: fn(&[u8])) {
    replay_some(target, MUTATIONS, run);
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// The same with a number of changes for a slow target.
fn replay_some(target: &str, mutations: usize, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzzing/corpus").join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let corpus: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    assert!(corpus.len() >= 5, "the corpus of {target} is missing");
    corpus.iter().for_each(|input| check(run, input));
    let time = number("TOLLGATE_FUZZ_SECONDS").map(Duration::from_secs);
    let most = number("TOLLGATE_MUTATIONS").unwrap_or(mutations as u64);
    let mut random = fastrand::Rng::with_seed(number("TOLLGATE_SEED").unwrap_or(11));
    let (start, mut count) = (Instant::now(), 0_u64);
    while time.map_or(count < most, |time| start.elapsed() < time) {
        check(run, &mutate::mutate(&corpus, &mut random));
        count += 1;
    }
    println!("{target}: {count} changes of {} inputs in {:?}", corpus.len(), start.elapsed());
}

/// Runs one input, and shows it if an invariant does not hold.
fn check(run: fn(&[u8]), input: &[u8]) {
    if catch_unwind(|| run(input)).is_err() {
        panic!("failing input: b\"{}\"", input.escape_ascii());
    }
}

#[test]
fn accepted_requests_have_one_reading() {
    replay("request", targets::request::run);
}

#[test]
fn normalized_paths_have_one_spelling() {
    replay("path", targets::path::run);
}

#[test]
fn files_of_properties_have_diagnostics_with_places() {
    // Each change is read as a whole configuration.
    replay_some("properties", MUTATIONS / 10, targets::properties::run);
}

#[test]
fn clients_cannot_choose_the_forwarded_address() {
    replay("forwarded", targets::forwarded::run);
}

#[test]
fn certificates_of_clients_have_one_reading() {
    replay("client_certificate", targets::client_certificate::run);
}

#[test]
fn headers_of_load_balancers_have_one_reading() {
    replay("proxy_header", targets::proxy_header::run);
}

#[test]
fn replies_of_scripts_are_whole_or_nothing() {
    replay("redis_reply", targets::redis_reply::run);
}

#[test]
fn responses_of_registries_give_usable_instances_only() {
    replay("registry_reply", targets::registry_reply::run);
}

#[test]
fn responses_of_upstreams_have_one_reading_in_pieces_of_any_size() {
    replay("upstream_response", targets::upstream_response::run);
}

#[test]
fn files_of_api_keys_are_read_whole_or_refused() {
    replay("api_keys", targets::api_keys::run);
}

#[test]
fn damaged_key_stores_harm_nothing() {
    // Each change is verified and decrypted.
    replay_some("key_store", MUTATIONS / 10, targets::key_store::run);
}

#[cfg(feature = "jwt")]
#[test]
fn tokens_without_a_valid_signature_are_rejected() {
    replay("jwt", jwt::run);
}

#[cfg(feature = "jwt")]
#[test]
fn the_corpus_holds_an_accepted_token() {
    use tollgate_filters::jwt::{KeySet, Settings, Verifier};
    let token = include_bytes!("corpus/jwt/valid");
    let verifier = Verifier::new(Settings::default(), KeySet::parse(jwt::KEYS).unwrap());
    assert!(verifier.verify(token.trim_ascii()).is_ok());
}

#[test]
fn the_corpus_holds_an_accepted_reply() {
    let reply = include_bytes!("corpus/redis_reply/allowed");
    assert_eq!(tollgate_limiter::store::redis::script_reply(&reply[1..], 1).map(|verdicts| verdicts.len()), Some(1));
}
