//! The one source of chance: SplitMix64 from a seed.
//!
//! Every consumer gets its own stream by name, so that adding a draw in one place changes nothing in another. Nothing here reads a
//! clock or the operating system: the same seed gives the same bytes on every machine.
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed ^ GOLDEN) }
    }

    /// A stream of its own for `name`. Drawing from it does not change this one.
    pub fn stream(&self, name: &str) -> Self {
        let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
        Self { state: mix(self.state ^ mix(hash)) }
    }

    /// The `n`-th stream of `name`.
    pub fn nth(&self, name: &str, n: u64) -> Self {
        let Self { state } = self.stream(name);
        Self { state: mix(state ^ mix(n.wrapping_add(1))) }
    }

    pub fn u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number below `bound`; 0 for a bound of 0. The bias is below 2⁻³² for the bounds we use.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.u64().checked_rem(bound).unwrap_or(0)
    }

    /// From 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        (self.u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len() as u64) as usize)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// `n` numbers in (0, 1), one in each of `n` equal strata, in random order: as random as independent draws for whoever meets them
    /// one by one, with far less luck in their mean and percentiles.
    pub fn strata(&mut self, n: usize) -> Vec<f64> {
        let mut numbers: Vec<f64> = (0..n).map(|i| (i as f64 + self.unit().max(1e-12)) / n as f64).collect();
        self.shuffle(&mut numbers);
        numbers
    }
}

/// One stream that several parts of the system draw from, as device and server are handed it.
#[derive(Clone)]
pub struct SharedRng(Arc<Mutex<Rng>>);

impl SharedRng {
    pub fn new(rng: Rng) -> Self {
        Self(Arc::new(Mutex::new(rng)))
    }
    pub fn fill(&self, out: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill(out);
    }
}

impl device::ports::Random for SharedRng {
    fn bytes16(&self) -> [u8; 16] {
        let mut out = [0; 16];
        self.fill(&mut out);
        out
    }
}

/// Run times of a Graph: lognormal around a median, never below a minimum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunTimes {
    pub median_s: f64,
    pub sigma: f64,
    pub minimum_s: f64,
}

impl RunTimes {
    /// The published assumption; σ is derived: it fits every published row.
    pub const PUBLISHED: Self = Self { median_s: 60.0, sigma: 0.8, minimum_s: 5.0 };

    /// The run time at quantile `u`, in whole milliseconds.
    pub fn at(&self, u: f64) -> u64 {
        let seconds = (self.median_s * (self.sigma * normal_quantile(u)).exp()).max(self.minimum_s);
        (seconds * 1000.0).round() as u64
    }
}

/// Inverse of the normal distribution (Acklam's rational approximation, relative error below 1.2e-9).
pub fn normal_quantile(u: f64) -> f64 {
    const A: [f64; 6] =
        [-3.969683028665376e1, 2.209460984245205e2, -2.759285104469687e2, 1.38357751867269e2, -3.066479806614716e1, 2.506628277459239];
    const B: [f64; 5] = [-5.447609879822406e1, 1.615858368580409e2, -1.556989798598866e2, 6.680131188771972e1, -1.328068155288572e1];
    const C: [f64; 6] = [-7.784894002430293e-3, -3.223964580411365e-1, -2.400758277161838, -2.549732539343734, 4.374664141464968, 2.938163982698783];
    const D: [f64; 4] = [7.784695709041462e-3, 3.224671290700398e-1, 2.445134137142996, 3.754408661907416];
    const LOW: f64 = 0.02425;
    let poly = |k: &[f64], x: f64| k.iter().fold(0.0, |sum, c| sum * x + c);
    let tail = |u: f64| {
        let q = (-2.0 * u.ln()).sqrt();
        poly(&C, q) / (poly(&D, q) * q + 1.0)
    };
    let u = u.clamp(1e-15, 1.0 - 1e-15);
    if u < LOW {
        tail(u)
    } else if u > 1.0 - LOW {
        -tail(1.0 - u)
    } else {
        let q = u - 0.5;
        let r = q * q;
        poly(&A, r) * q / (poly(&B, r) * r + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_depends_on_its_name_and_not_on_other_draws() {
        let root = Rng::new(7);
        let mut drawn = root.clone();
        drawn.u64();
        assert_eq!(root.stream("a").u64(), root.stream("a").u64());
        assert_ne!(root.stream("a").u64(), root.stream("b").u64());
        assert_ne!(root.nth("a", 0).u64(), root.nth("a", 1).u64());
    }

    #[test]
    fn run_times_have_the_published_median_and_mean() {
        let mut rng = Rng::new(1);
        let mut times: Vec<u64> = rng.strata(4_000).into_iter().map(|u| RunTimes::PUBLISHED.at(u)).collect();
        times.sort_unstable();
        assert!((times[2_000] as f64 - 60_000.0).abs() < 200.0, "{}", times[2_000]);
        assert!(times[0] >= 5_000);
        let mean = times.iter().sum::<u64>() as f64 / 4_000.0;
        assert!((mean - 82_630.0).abs() < 900.0, "{mean}");
    }

    #[test]
    fn the_normal_quantile_knows_its_table() {
        for (u, z) in [(0.5, 0.0), (0.975, 1.959_964), (0.025, -1.959_964), (0.001, -3.090_232)] {
            assert!((normal_quantile(u) - z).abs() < 1e-5, "{u}: {}", normal_quantile(u));
        }
    }

    #[test]
    fn strata_hold_one_number_each() {
        let mut numbers = Rng::new(3).strata(100);
        numbers.sort_by(f64::total_cmp);
        for (i, u) in numbers.iter().enumerate() {
            assert!((i as f64 / 100.0..(i + 1) as f64 / 100.0).contains(u));
        }
    }
}
