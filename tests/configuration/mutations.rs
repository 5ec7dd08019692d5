//! A changed file gives either a working configuration or errors with positions: never a panic, a hang or half a
//! generation.
//!
//! Files of the repository are changed at random with a fixed seed ([`mutate`]). Each is checked within a time limit;
//! accepted files are built as for serving and migrated. `TOLLGATE_MUTATIONS=100000` tries more, with another seed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod mutate;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use tollgate_config::{Config, Diagnostic, Report, Severity, migrate, parse};
use tollgate_proxy::gateway::{SharedGeneration, WorkerState};
use tollgate_proxy::instrumentation::metrics::Metrics;
use tollgate_proxy::state::stores::{SharedStores, Stores};
use tollgate_routing::RouteEntry;

/// Changed files by default.
const CASES: usize = 1_200;

/// Time limit of a case; the slowest take some milliseconds on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(20);

fn env(name: &str) -> Option<String> {
    ["REDIS_HOST", "ORDERS_URL"].contains(&name).then(|| "http://host${".to_owned())
}

/// The YAML files of the repository.
fn seeds() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> = ["config", "tests/data", "tests/data/spring"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml"))
        .collect();
    let corpus = std::fs::read_dir(root.join("tests/corpus")).unwrap();
    files.extend(corpus.map(|entry| entry.unwrap().path().join("application.yml")).filter(|path| path.is_file()));
    files.sort();
    files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn a_changed_file_works_or_is_refused_with_a_position() {
    let more = std::env::var("TOLLGATE_MUTATIONS").ok().and_then(|cases| cases.parse().ok());
    let first = if more.is_some() { fastrand::u64(..u64::MAX / 2) } else { 0 };
    let seeds = seeds();
    assert!(seeds.len() > 100);
    let (sender, cases) = channel();
    let worker = std::thread::spawn(move || {
        let (mut accepted, total) = (0, more.unwrap_or(CASES));
        for number in 0..total as u64 {
            let text = mutate::mutated(&seeds, first + number);
            if sender.send(text.clone()).is_err() {
                break;
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| try_out(&text)));
            match outcome {
                Ok(Ok(was_accepted)) => accepted += usize::from(was_accepted),
                Ok(Err(complaint)) => return Err(format!("{complaint}\n---- of ----\n{text}")),
                Err(_) => return Err(format!("a panic, see above\n---- of ----\n{text}")),
            }
        }
        Ok((accepted, total))
    });
    let mut current = String::new();
    loop {
        match cases.recv_timeout(TIME_LIMIT) {
            Ok(text) => current = text,
            Err(RecvTimeoutError::Timeout) => panic!("no end of\n{current}"),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    match worker.join().unwrap() {
        Ok((accepted, total)) => {
            assert!(accepted * 20 > total, "only {accepted} of {total} were accepted: nothing is learnt from them");
        }
        Err(complaint) => panic!("{complaint}"),
    }
}

/// Returns true if `text` is accepted. The error describes a wrong result.
fn try_out(text: &str) -> Result<bool, String> {
    let loaded = match parse("changed.yaml", text, &env) {
        Ok(loaded) => loaded,
        Err(problems) if !problems.has_errors() => return Err(format!("refused without an error:\n{problems}")),
        Err(problems) => return have_places(&problems, text).map(|()| false),
    };
    have_places(&loaded.notes, text)?;
    build(&loaded.config);
    match migrate("changed.yaml", text, &env) {
        Ok(migrated) => match parse("migrated.yaml", &migrated.yaml, &env) {
            Ok(new) => match new.notes.list().iter().find(|note| note.severity == Severity::Warning) {
                Some(_) => Err(format!("migrated with a warning:\n{}\n{}", new.notes, migrated.yaml)),
                None => Ok(true),
            },
            Err(problems) => Err(format!("migrated to what is refused:\n{problems}\n{}", migrated.yaml)),
        },
        Err(problems) => Err(format!("accepted, but not migrated:\n{problems}")),
    }
}

/// Fails for diagnostics without a position or message.
fn have_places(problems: &Report, text: &str) -> Result<(), String> {
    let height = text.replace('\r', "\n").lines().count() + 1;
    let is_good = |Diagnostic { line, column, message, .. }: &Diagnostic| {
        (1..=height).contains(line) && *column >= 1 && !message.trim().is_empty()
    };
    match problems.list().iter().find(|problem| !is_good(problem)) {
        Some(problem) => Err(format!("a problem without a place: {problem:?}")),
        None => Ok(()),
    }
}

/// Builds the routes as a worker does.
fn build(config: &Config) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (stores, metrics) = (SharedStores::new(config), Arc::<Metrics>::default());
        let shared = SharedGeneration::new(Arc::new(config.clone()), &stores, &metrics, false);
        let worker = Rc::new(WorkerState::new(0, metrics, Stores::new(stores), Arc::default(), true, None));
        let generation = worker.generation(Arc::new(shared)).await;
        let routes = generation.table.iter().enumerate().map(|(index, (predicates, value))| RouteEntry {
            value,
            index,
            predicates,
        });
        assert_eq!(routes.filter(|route| generation.stack(route).is_some()).count(), config.routes.len());
    });
}
