//! Errors of the tools.

use std::fmt;
use std::io;
use std::process::ExitCode;

use thiserror::Error;

/// Error of a tool, with the remedy.
#[derive(Debug, Error)]
pub enum ToolError {
    /// A program cannot be started.
    #[error("cannot start {program}: {source}; install it, or add its folder to PATH")]
    Program {
        /// Name of the program.
        program: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// An argument of the command line.
    #[error("{0}")]
    Argument(String),
    /// Redis refused a call, or the connection broke.
    #[error("redis: {0}; its version must be 7.0 or later")]
    Redis(#[from] redis::RedisError),
    /// Redis sent another reply than the expected one.
    #[error("unexpected reply of redis: {0}")]
    Reply(String),
    /// The store decided without Redis.
    #[error("the store decided without redis: is the machine overloaded?")]
    WithoutRedis,
    /// A text of the system has another form than the expected one.
    #[error("{name} has an unexpected form: {text}")]
    Form {
        /// Name of the text.
        name: &'static str,
        /// Its start.
        text: String,
    },
    /// A rule or a setting of a design is invalid.
    #[error("invalid design: {0}")]
    Design(String),
    /// A task ended early.
    #[error("a task ended early: {0}")]
    Task(#[from] tokio::task::JoinError),
    /// The system refused a call.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl ToolError {
    /// Returns the error of an invalid rule or setting.
    pub fn design(error: impl fmt::Display) -> Self {
        Self::Design(error.to_string())
    }

    /// Returns the error of the text `name`.
    pub fn form(name: &'static str, text: &str) -> Self {
        Self::Form { name, text: text.chars().take(80).collect() }
    }
}

/// Prints the error of a tool. Returns its exit code: 0, 1 or that of the tool.
pub fn exit(result: Result<ExitCode, ToolError>) -> ExitCode {
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}
