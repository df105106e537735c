//! Numbers for Prometheus. Kept per running queue, not per process: a simulation runs many.
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Upper bounds of the pickup wait's buckets, in seconds.
const BOUNDS_S: [u64; 10] = [1, 2, 5, 10, 20, 60, 300, 3_600, 86_400, 604_800];

#[derive(Default)]
pub struct Metrics {
    /// (face, status class) → requests answered.
    requests: Mutex<BTreeMap<(&'static str, u16), u64>>,
    pickup_buckets: [AtomicU64; BOUNDS_S.len()],
    pickup_sum_ms: AtomicU64,
    pickup_count: AtomicU64,
}

/// What is looked up when the numbers are asked for.
pub struct Gauges {
    pub queued: i64,
    pub running: i64,
    pub oldest_queued_s: i64,
    pub held: usize,
    pub relays: usize,
}

impl Metrics {
    pub fn request(&self, path: &str, status: u16) {
        let face = match path {
            p if p.starts_with("/external-assistants") => "device",
            "/mcp" => "mcp",
            p if p.starts_with("/oauth") || p.starts_with("/.well-known") => "oauth",
            _ => "other",
        };
        *self.requests.lock().unwrap_or_else(PoisonError::into_inner).entry((face, status / 100)).or_default() += 1;
    }

    pub fn picked_up(&self, waited_ms: i64) {
        let ms = u64::try_from(waited_ms).unwrap_or(0);
        for (bound, bucket) in BOUNDS_S.iter().zip(&self.pickup_buckets) {
            if ms <= bound * 1000 {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.pickup_sum_ms.fetch_add(ms, Ordering::Relaxed);
        self.pickup_count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn render(&self, now: &Gauges) -> String {
        let mut out = String::new();
        let mut gauge = |name: &str, help: &str, value: i64| {
            let _ = writeln!(out, "# HELP graph_queue_{name} {help}\n# TYPE graph_queue_{name} gauge\ngraph_queue_{name} {value}");
        };
        gauge("commands_queued", "Commands waiting to be started.", now.queued);
        gauge("commands_running", "Commands started and not ended.", now.running);
        gauge("oldest_queued_seconds", "Age of the oldest queued command.", now.oldest_queued_s);
        gauge("held_requests", "Requests held open at this instance.", now.held as i64);
        gauge("relays_seen", "Devices in contact with this instance within a minute.", now.relays as i64);
        let _ = writeln!(out, "# HELP graph_queue_requests_total Requests answered.\n# TYPE graph_queue_requests_total counter");
        for ((face, class), count) in self.requests.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let _ = writeln!(out, "graph_queue_requests_total{{face=\"{face}\",status=\"{class}xx\"}} {count}");
        }
        let name = "graph_queue_pickup_wait_seconds";
        let _ = writeln!(out, "# HELP {name} Time from queueing to start.\n# TYPE {name} histogram");
        for (bound, bucket) in BOUNDS_S.iter().zip(&self.pickup_buckets) {
            let _ = writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {}", bucket.load(Ordering::Relaxed));
        }
        let count = self.pickup_count.load(Ordering::Relaxed);
        let sum = self.pickup_sum_ms.load(Ordering::Relaxed) as f64 / 1000.0;
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}");
        out
    }
}
