//! Several files as one configuration, at the command line and in a running gateway.
//!
//! A transcript has files after `== NAME`, commands after `$ `, and their outputs, standard error first. `KEY=VALUE` in
//! front of a command sets a variable.

use std::process::Command;

use crate::support::gateway::TOLLGATE;

mod arguments;
mod files;
mod imports;
mod proposals;

/// Runs the commands of `transcript` in a folder with its files. Fails if an output differs.
fn replay(transcript: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mut replayed = String::new();
    let mut file: Option<(String, String)> = None;
    let write = |file: Option<(String, String)>| {
        if let Some((name, text)) = file {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    };
    for line in transcript.lines() {
        if let Some(name) = line.strip_prefix("== ") {
            write(file.replace((name.to_owned(), String::new())));
            replayed.push_str(&format!("{line}\n"));
        } else if let Some(command) = line.strip_prefix("$ ") {
            write(file.take());
            // The names in the files are those of no machine.
            let command = command.replace("tollgate check", "tollgate check --offline");
            let command = command.replace("tollgate ", &format!("{TOLLGATE} "));
            let output = Command::new("bash")
                .args(["-c", &format!("{{ {command}; }} 2>&1")])
                .current_dir(folder.path())
                .env_remove("TOLLGATE_CONFIG")
                .env_remove("SPRING_CONFIG_LOCATION")
                .output()
                .unwrap();
            replayed.push_str(&format!("{line}\n{}", String::from_utf8_lossy(&output.stdout)));
        } else if let Some((_, text)) = &mut file {
            text.push_str(&format!("{line}\n"));
            replayed.push_str(&format!("{line}\n"));
        }
    }
    assert!(replayed == transcript, "it was\n{replayed}");
}
