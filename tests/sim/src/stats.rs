//! What is said of a sample, and when two figures agree.
//!
//! Agreement: within 10 % or within 3 standard errors of the published sample size, whichever is wider. Standard errors of percentiles
//! come from a bootstrap of our own sample at the published size.
use crate::rng::Rng;

/// Resamples per bootstrapped figure: enough for a standard error that is good to about 7 %.
const RESAMPLES: usize = 100;
const RELATIVE: f64 = 0.10;
const STANDARD_ERRORS: f64 = 3.0;

/// A sample, kept sorted.
#[derive(Debug, Clone, Default)]
pub struct Sample(Vec<f64>);

impl Sample {
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }
    pub fn of_ms(values: impl IntoIterator<Item = u64>) -> Self {
        Self::of(values.into_iter().map(|ms| ms as f64 / 1000.0))
    }
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub fn sorted(&self) -> &[f64] {
        &self.0
    }
    pub fn mean(&self) -> f64 {
        if self.0.is_empty() { f64::NAN } else { self.0.iter().sum::<f64>() / self.0.len() as f64 }
    }
    pub fn deviation(&self) -> f64 {
        let mean = self.mean();
        let n = self.0.len().max(2) as f64;
        (self.0.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt()
    }
    /// Nearest rank: the smallest value with at least `q` of the sample at or below it.
    pub fn quantile(&self, q: f64) -> f64 {
        self.0.get(rank(q, self.0.len())).copied().unwrap_or(f64::NAN)
    }
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }
    pub fn p95(&self) -> f64 {
        self.quantile(0.95)
    }
    pub fn max(&self) -> f64 {
        self.0.last().copied().unwrap_or(f64::NAN)
    }

    /// Standard error of the mean of `n` such values.
    pub fn mean_error(&self, n: usize) -> f64 {
        self.deviation() / (n as f64).sqrt()
    }

    /// Standard error of the quantile of `n` such values, by bootstrap.
    pub fn quantile_error(&self, q: f64, n: usize, rng: &mut Rng) -> f64 {
        if self.0.is_empty() {
            return 0.0;
        }
        let mut indices = vec![0u32; n];
        let at = rank(q, n);
        let values = (0..RESAMPLES).map(|_| {
            // The sample is sorted, so the quantile of the resample is the value at the quantile of its indices.
            indices.iter_mut().for_each(|i| *i = rng.below(self.0.len() as u64) as u32);
            let (_, index, _) = indices.select_nth_unstable(at);
            self.0[*index as usize]
        });
        Self::of(values.collect::<Vec<_>>()).deviation()
    }
}

fn rank(q: f64, n: usize) -> usize {
    ((q * n as f64).ceil() as usize).clamp(1, n.max(1)) - 1
}

/// One published number beside ours.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub what: String,
    pub published: f64,
    pub ours: f64,
    /// Largest difference that still agrees.
    pub tolerance: f64,
    pub unit: &'static str,
    /// Digits after the point when printed.
    pub digits: usize,
}

impl Figure {
    /// A figure with the standard error that the published sample size gives it.
    pub fn near(what: &str, published: f64, ours: f64, standard_error: f64, unit: &'static str, digits: usize) -> Self {
        let tolerance = (RELATIVE * published.abs()).max(STANDARD_ERRORS * standard_error);
        Self { what: what.to_owned(), published, ours, tolerance, unit, digits }
    }

    /// A deterministic figure: equal to the last digit that was published.
    pub fn exact(what: &str, published: f64, ours: f64, unit: &'static str, digits: usize) -> Self {
        let tolerance = if digits == 0 { 0.0 } else { 0.5 * 10f64.powi(-(digits as i32)) + 1e-9 };
        Self { what: what.to_owned(), published, ours, tolerance, unit, digits }
    }

    pub fn agrees(&self) -> bool {
        (self.ours - self.published).abs() <= self.tolerance
    }

    pub fn ours_text(&self) -> String {
        self.text(self.ours)
    }

    pub fn text(&self, value: f64) -> String {
        let what = if self.what.is_empty() { String::new() } else { format!("{} ", self.what) };
        format!("{what}{}{}{}", number(value, self.digits), if self.unit.is_empty() { "" } else { " " }, self.unit)
    }
}

/// A number with thousands separated, as the published table writes them.
pub fn number(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let text = format!("{:.*}", digits, value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(c);
    }
    let sign = if value < 0.0 && text.bytes().any(|b| (b'1'..=b'9').contains(&b)) { "-" } else { "" };
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let sample = Sample::of((1..=100).map(f64::from));
        assert_eq!((sample.median(), sample.p95(), sample.max(), sample.quantile(1.0)), (50.0, 95.0, 100.0, 100.0));
        assert!(Sample::default().median().is_nan());
    }

    #[test]
    fn the_bootstrap_finds_the_error_of_a_median() {
        let sample = Sample::of(Rng::new(5).strata(2_000));
        let error = sample.quantile_error(0.5, 500, &mut Rng::new(6));
        // Of a uniform median: 1 / (2 √n).
        assert!((error - 0.0224).abs() < 0.006, "{error}");
    }

    #[test]
    fn the_wider_tolerance_counts_and_deterministic_figures_agree_exactly() {
        assert!(Figure::near("", 100.0, 109.0, 0.1, "s", 0).agrees());
        assert!(!Figure::near("", 100.0, 111.0, 0.1, "s", 0).agrees());
        assert!(Figure::near("", 100.0, 111.0, 4.0, "s", 0).agrees());
        assert!(Figure::exact("", 99_899.0, 99_899.0, "", 0).agrees());
        assert!(!Figure::exact("", 99_899.0, 99_898.0, "", 0).agrees());
        assert!(Figure::exact("", 3.0, 3.04, "s", 1).agrees());
    }

    #[test]
    fn numbers_read_like_the_published_table() {
        assert_eq!(number(299_697.0, 0), "299,697");
        assert_eq!(number(1_234.56, 1), "1,234.6");
        assert_eq!(number(-0.01, 1), "0.0");
        assert_eq!(number(f64::NAN, 1), "–");
    }
}
