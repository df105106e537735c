//! Order statistics, and what one fsync costs here.
use std::{io::Write, time::Instant};

use serde_json::{Value, json};

#[derive(Clone, Copy)]
pub struct Spread {
    pub n: usize,
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub max: f64,
}

impl Spread {
    pub fn of(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |p: f64| samples[((samples.len() - 1) as f64 * p).round() as usize];
        Self { n: samples.len(), mean: samples.iter().sum::<f64>() / samples.len() as f64, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1.0) }
    }

    pub fn to_json(self) -> Value {
        let round = |x: f64| (x * 1000.0).round() / 1000.0;
        json!({"n": self.n, "mean": round(self.mean), "p50": round(self.p50), "p95": round(self.p95), "p99": round(self.p99), "max": round(self.max)})
    }
}

/// Milliseconds for people.
pub fn ms(x: f64) -> String {
    if x >= 100.0 { format!("{x:.0} ms") } else { format!("{x:.2} ms") }
}

/// Appends a page and fsyncs it, again and again.
pub fn fsync_ms(times: usize) -> Spread {
    let mut file = tempfile::tempfile_in(super::programs::scratch()).unwrap();
    let samples = (0..times).map(|_| {
        let at = Instant::now();
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
        at.elapsed().as_secs_f64() * 1000.0
    });
    Spread::of(samples.collect())
}
