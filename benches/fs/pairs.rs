//! Pairs of measurements and what can be said about them.

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// Nanoseconds; judged by the ratio to the reference.
    Time,
    /// Bytes; judged as they are.
    Bytes,
}

/// Measurements of two things, taken in turns.
#[derive(Clone)]
pub(crate) struct Pairs {
    unit: Unit,
    taken: Vec<(u64, u64)>,
}

impl Pairs {
    pub(crate) const fn new(unit: Unit) -> Self {
        Self {
            unit,
            taken: Vec::new(),
        }
    }

    /// What is measured.
    pub(crate) const fn unit(&self) -> Unit {
        self.unit
    }

    /// Adds one pair: the reference, and what is compared to it.
    pub(crate) fn add(&mut self, reference: u64, measured: u64) {
        self.taken.push((reference, measured));
    }

    /// The median of the reference.
    pub(crate) fn reference(&self) -> Option<f64> {
        median(self.taken.iter().map(|pair| pair.0 as f64).collect())
    }

    /// The median of what is compared.
    pub(crate) fn measured(&self) -> Option<f64> {
        median(self.taken.iter().map(|pair| pair.1 as f64).collect())
    }

    /// The median of the ratios with the smallest and the largest.
    pub(crate) fn ratio(&self) -> Option<(f64, f64, f64)> {
        let ratio = |(a, b): &(u64, u64)| *b as f64 / (*a as f64).max(1.0);
        let ratios: Vec<f64> = self.taken.iter().map(ratio).collect();
        let least = ratios.iter().copied().reduce(f64::min)?;
        let most = ratios.iter().copied().reduce(f64::max)?;
        Some((median(ratios)?, least, most))
    }
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
        let mut pairs = Pairs::new(Unit::Time);
        for (a, b) in [(1, 2), (10, 10), (2, 6)] {
            pairs.add(a, b);
        }
        assert_eq!(pairs.ratio(), Some((2.0, 1.0, 3.0)));
        assert_eq!(pairs.reference(), Some(2.0));
        assert_eq!(pairs.measured(), Some(6.0));
        assert_eq!(Pairs::new(Unit::Bytes).ratio(), None);
    }
}
