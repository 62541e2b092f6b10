//! Pairs of measurements and what can be said about them.

use std::time::Duration;

/// Measurements of two things, taken in turns.
#[derive(Clone, Default)]
pub(crate) struct Pairs(Vec<(Duration, Duration)>);

impl Pairs {
    /// Adds one pair: the reference, and what is compared to it.
    pub(crate) fn add(&mut self, reference: Duration, measured: Duration) {
        self.0.push((reference, measured));
    }

    /// The median time of the reference, in milliseconds.
    pub(crate) fn reference(&self) -> Option<f64> {
        median(
            self.0
                .iter()
                .map(|(reference, _)| milliseconds(*reference))
                .collect(),
        )
    }

    /// The median time of what is compared, in milliseconds.
    pub(crate) fn measured(&self) -> Option<f64> {
        median(
            self.0
                .iter()
                .map(|(_, measured)| milliseconds(*measured))
                .collect(),
        )
    }

    /// The median of the ratios with the smallest and the largest.
    pub(crate) fn ratio(&self) -> Option<(f64, f64, f64)> {
        let ratio = |(a, b): &(Duration, Duration)| milliseconds(*b) / milliseconds(*a).max(0.001);
        let ratios: Vec<f64> = self.0.iter().map(ratio).collect();
        let least = ratios.iter().copied().reduce(f64::min)?;
        let most = ratios.iter().copied().reduce(f64::max)?;
        Some((median(ratios)?, least, most))
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_ratios_is_not_the_ratio_of_medians() {
        let mut pairs = Pairs::default();
        for (a, b) in [(1, 2), (10, 10), (2, 6)] {
            pairs.add(Duration::from_millis(a), Duration::from_millis(b));
        }
        assert_eq!(pairs.ratio(), Some((2.0, 1.0, 3.0)));
        assert_eq!(pairs.reference(), Some(2.0));
        assert_eq!(pairs.measured(), Some(6.0));
        assert_eq!(Pairs::default().ratio(), None);
    }
}
