//! Invalid replies.

use std::time::Duration;

use tollgate_test_support::Fault;

use super::{Fixture, resident};

/// Under load: the connection is closed, and announced lengths allocate no memory.
async fn borne(name: &str, fault: Fault) {
    let fixture = Fixture::start().await;
    let before = resident();
    let accepted = fixture.proxy.accepted();
    fixture.run_fault(name, fault, Duration::from_millis(1_000)).await;
    let (grown, connects) = (resident().saturating_sub(before), fixture.proxy.accepted() - accepted);
    println!("{name}: memory grew by {} KiB, {connects} connections made", grown / 1_024);
    assert!(grown < 32 << 20, "{name}: {grown} bytes");
    assert!((1..=12).contains(&connects), "{name}: {connects} connections");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_is_survived() {
    borne("garbage", Fault::garbage()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_of_another_type_is_survived() {
    borne("another kind", Fault::wrong_type()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_string_with_a_huge_length_is_survived() {
    borne("huge text", Fault::huge_text()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_array_with_a_huge_length_is_survived() {
    borne("huge list", Fault::huge_list()).await;
}
