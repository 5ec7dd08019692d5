//! Tollgate: a rate-limiting HTTP gateway that reads Spring Cloud Gateway's YAML.
//!
//! This crate is the program around the path of a request, which is the crate [`tollgate_proxy`]: begin reading there.
//!
//! `tollgate_config` reads the YAML. [`app`] starts, reloads and drains the process. [`admin`] serves health, metrics
//! and limits. [`explain`] runs a request without traffic, [`tollgate_simulate`] replays access logs. [`cli`] has one file per
//! command.
//!
//! Modules import in one direction: `cli` → `app` → `admin` → `explain`; all of them import the path of a request, and
//! it imports none of them. ARCHITECTURE.md lists all arrows.

#[macro_use(reply)]
extern crate tollgate_attributes;

pub mod admin;
pub mod app;
pub mod cli;
pub mod explain;
mod version;
