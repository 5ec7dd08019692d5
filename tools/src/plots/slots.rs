//! Picture of the ConcurrencyLimiter: leases of two gateways, one of which is killed.

use tollgate_limiter::concurrency::{Owner, Slots, Step};

use super::chart::{Chart, Row};
use super::line::Line;

const LIMIT: u64 = 3;
const LEASE_MS: u64 = 6_000;
const RENEW_EVERY_MS: u64 = 2_000;
const KILLED_MS: u64 = 7_500;
const END_MS: u64 = 18_000;

/// Requests: gateway, arrival in ms, duration in ms.
const REQUESTS: [(&str, u64, u64); 9] = [
    ("A", 500, 4_000),
    ("B", 1_000, 15_000),
    ("A", 2_000, 12_000),
    ("B", 3_000, 2_000),
    ("A", 5_000, 9_000),
    ("B", 6_000, 2_000),
    ("B", 9_000, 2_000),
    ("B", 12_500, 3_000),
    ("B", 14_000, 3_000),
];

/// Request that holds a slot.
struct Holder {
    row: usize,
    owner: Owner,
    ends_ms: u64,
    renewed_ms: u64,
    is_killed: bool,
}

pub(crate) fn concurrency() -> String {
    let (mut slots, mut holders, mut held) = (Slots::default(), Vec::<Holder>::new(), Line::default());
    let mut rows: Vec<Row> = REQUESTS.iter().map(|(gateway, ..)| Row { name: gateway, ..Row::default() }).collect();
    for now_ms in (0..=END_MS).step_by(25) {
        let now_us = now_ms * 1_000;
        if now_ms == KILLED_MS {
            for holder in holders.iter_mut().filter(|holder| rows[holder.row].name == "A") {
                holder.is_killed = true;
            }
            for holder in holders.iter().filter(|holder| holder.is_killed) {
                let row = &mut rows[holder.row];
                row.held = row.held.map(|(from_ms, _)| (from_ms, now_ms));
                row.leased = Some((now_ms, holder.renewed_ms + LEASE_MS));
            }
        }
        holders.retain(|holder| {
            holder.is_killed || now_ms < holder.ends_ms || {
                slots.release(holder.owner, now_us);
                false
            }
        });
        for holder in holders.iter_mut().filter(|holder| !holder.is_killed) {
            if now_ms == holder.renewed_ms + RENEW_EVERY_MS {
                slots.renew(holder.owner, LIMIT, LEASE_MS * 1_000, now_us);
                holder.renewed_ms = now_ms;
            }
        }
        for (row, &(_, _, takes_ms)) in REQUESTS.iter().enumerate().filter(|(_, request)| request.1 == now_ms) {
            let owner = Owner::new(0, row as u64 + 1);
            if slots.acquire(owner, LIMIT, LEASE_MS * 1_000, now_us).step == Step::Done {
                let ends_ms = now_ms + takes_ms;
                rows[row].held = Some((now_ms, ends_ms));
                holders.push(Holder { row, owner, ends_ms, renewed_ms: now_ms, is_killed: false });
            } else {
                rows[row].denied_ms = Some(now_ms);
            }
        }
        // A release by an owner without a slot changes nothing and returns the number of held slots.
        held.push(now_ms, slots.release(Owner::new(0, 0), now_us).held as f64);
    }
    draw(&rows, &held)
}

fn draw(rows: &[Row], held: &Line) -> String {
    let mut chart = Chart::new(
        "ConcurrencyLimiter: 3 slots across gateways A and B, leases of 6 s",
        "Requests hold a slot while they run, renewed every 2 s; a fourth request is denied. At 7.5 s gateway A is killed: \
         its two requests end, but their slots stay blocked until their leases end.",
        END_MS,
    );
    chart.legend("", "denied (429)");
    let top = chart.depth();
    chart.bars(rows);
    let panel =
        chart.panel("held slots; the line marks the kill of A; pale bars are leases without a request", 60.0, 4.0);
    chart.limit(&panel, LIMIT as f64, "limit");
    chart.line(&panel, "l", &held.steps());
    chart.edges(top, std::iter::once(KILLED_MS));
    chart.finish(2, ("s", 1_000))
}
