//! Configuration files as applications have them, each with a transcript that is replayed.
//!
//! `tests/corpus/README.md` describes the files. `TOLLGATE_TRANSCRIPTS=1` writes the results into the transcripts.

mod case;
mod network;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Mutex;

use self::case::{Case, request};
use self::network::Network;
use crate::support::gateway::{Gateway, TOLLGATE};

/// Outcomes of a file.
const UNCHANGED: &str = "runs unchanged";
const WITH_OVERLAY: &str = "runs with the proposed overlay";
const BY_HAND: &str = "needs work by hand";

/// Runs a command with the files of a case, in its folder.
fn command(case: &Case, arguments: &[&str], others: &[&Path], environment: &[(String, String)]) -> Command {
    let mut command = Command::new(TOLLGATE);
    command.args(arguments).current_dir(&case.folder).env_clear().env("PATH", std::env::var("PATH").unwrap());
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    for file in case.files() {
        command.args(["--config", &file]);
    }
    for file in others {
        command.arg("--config").arg(file);
    }
    command
}

/// Returns the errors and warnings of `check`.
fn problems(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = text.lines().filter(|line| !line.starts_with(' '));
    let is_problem = |line: &&str| line.contains(": error: ") || line.contains(": warning: ");
    lines.filter(is_problem).map(|line| format!("  {line}\n")).collect()
}

/// Returns the transcript of a case.
fn replay(case: &Case) -> String {
    let (settings, requests) = case.inputs();
    let mut transcript: String = settings.iter().map(|line| format!("{line}\n")).collect();
    let folder = tempfile::tempdir().unwrap();
    let network = Network::start(case);
    // The environment that the file needs in Spring, too.
    let given = case.words("env");
    let environment: Vec<(String, String)> =
        network.environment.iter().filter(|(name, _)| given.contains(&name.as_str())).cloned().collect();

    let check = command(case, &["check", "--offline"], &[], &environment).output().unwrap();
    let overlay = folder.path().join("overlay.yaml");
    let mut others: Vec<&Path> = Vec::new();
    let mut outcome = UNCHANGED;
    transcript.push_str(&problems(&check).concat());
    let proposal = command(case, &["check", "--overlay"], &[], &environment).output().unwrap();
    let text = String::from_utf8(proposal.stdout).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.clone().for_each(|line| transcript.push_str(&format!("  | {line}\n")));
    // A file without its registry or its controller of fallbacks runs, too, but some routes answer 503 or 404.
    if !check.status.success() || lines.clone().next().is_some() {
        std::fs::write(&overlay, &text).unwrap();
        others.push(&overlay);
        let checked = command(case, &["check", "--offline"], &others, &environment).output().unwrap();
        outcome = if checked.status.success() { WITH_OVERLAY } else { BY_HAND };
    }
    transcript.push_str(&format!("outcome: {outcome}\n"));
    if outcome == BY_HAND {
        requests.iter().for_each(|line| transcript.push_str(&format!("{line}\n")));
        return transcript;
    }

    let ports = folder.path().join("ports.yaml");
    std::fs::write(&ports, network.overlay()).unwrap();
    others.push(&ports);
    let mut command = command(case, &[], &others, &network.environment);
    command.env("SERVER_PORT", "0").env("MANAGEMENT_SERVER_PORT", "0");
    let gateway = Gateway::from_command(command);
    for line in requests {
        transcript.push_str(&format!("{line}\n{}", answer(&gateway, line)));
    }
    transcript
}

/// Sends a request; returns the status, the report of the upstream and the fields that matter.
fn answer(gateway: &Gateway, line: &str) -> String {
    let (method, target, fields) = request(line);
    let response = gateway.connect().request(method, target, &fields, b"");
    let mut text = response.status.to_string();
    match response.text() {
        body if response.status == 200 && !body.is_empty() => text.push_str(&format!(" {body}")),
        _ => text.push('\n'),
    }
    for (name, value) in &response.headers {
        let name = name.to_ascii_lowercase();
        let is_shown = name.starts_with("x-") || name.starts_with("access-control-") || name == "location";
        // A denial may come when the next token has.
        let is_timed = response.status == 429 && name == "x-ratelimit-remaining";
        if is_shown && !is_timed {
            text.push_str(&format!("  < {name}: {value}\n"));
        }
    }
    text
}

/// Fails if the transcript of a case differs; writes it if the environment asks for that.
fn verify(case: &Case) -> Result<(), String> {
    let replayed = replay(case);
    if std::env::var_os("TOLLGATE_TRANSCRIPTS").is_some() {
        std::fs::write(case.folder.join("transcript"), &replayed).unwrap();
        return Ok(());
    }
    if replayed == case.transcript { Ok(()) } else { Err(format!("{}: it was\n{replayed}", case.name)) }
}

#[test]
fn every_file_has_its_outcome_and_its_requests_arrive_as_stated() {
    let (cases, failed) = (Mutex::new(Case::all()), Mutex::new(Vec::new()));
    assert!(cases.lock().unwrap().len() >= 40);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = { cases.lock().unwrap().pop() } {
                    if let Err(difference) = verify(&case) {
                        failed.lock().unwrap().push(difference);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{} transcripts differ\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn two_thirds_run_unchanged_and_nine_of_ten_with_one_overlay() {
    let cases = Case::all();
    let files = |outcomes: &[&str]| -> usize {
        cases.iter().filter(|case| outcomes.contains(&case.value("outcome"))).map(Case::weight).sum()
    };
    let all = files(&[UNCHANGED, WITH_OVERLAY, BY_HAND]);
    assert_eq!(all, cases.iter().map(Case::weight).sum::<usize>(), "each case has an outcome");
    let (unchanged, with_one) = (files(&[UNCHANGED]), files(&[UNCHANGED, WITH_OVERLAY]));
    println!("{unchanged} and {with_one} of {all}");
    assert!(unchanged * 100 >= all * 65, "{unchanged} of {all} run unchanged");
    assert!(with_one * 100 >= all * 90, "{with_one} of {all} run with one overlay");
    // Files without routes answer 404 to everything: the aims hold without them.
    let empty: usize = cases.iter().filter(|case| case.name.starts_with("none-")).map(Case::weight).sum();
    assert!((unchanged - empty) * 100 >= (all - empty) * 65, "{unchanged} of {all} with {empty} empty ones");
}

#[test]
fn a_changed_transcript_is_noticed() {
    let mut case = Case::all().into_iter().find(|case| case.name == "unnamed-lb").unwrap();
    assert_eq!(verify(&case), Ok(()));
    let (settings, _) = case.inputs();
    let results = case.transcript.lines().enumerate().skip(settings.len()).filter(|(_, line)| !line.starts_with("> "));
    let results: Vec<usize> = results.map(|(number, _)| number).collect();
    assert!(results.len() > 5);
    let original = case.transcript.clone();
    for changed in results {
        let line =
            |(number, line): (usize, &str)| if number == changed { format!("{line}!\n") } else { format!("{line}\n") };
        case.transcript = original.lines().enumerate().map(line).collect();
        assert!(replay(&case) != case.transcript, "line {changed}");
    }
}
