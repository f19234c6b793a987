//! Thinning: sequences of bounded length that stand for longer ones.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Every so manieth of what arrived, from the first on, so that at most `cap` are kept.
#[derive(Debug, Clone)]
pub(super) struct Strided<T> {
    cap: usize,
    stride: u64,
    arrived: u64,
    kept: Vec<T>,
}

impl<T> Strided<T> {
    /// Keeps `cap` at most, and two at the least.
    pub(super) fn new(cap: usize) -> Self {
        Self { cap: cap.max(2), stride: 1, arrived: 0, kept: Vec::new() }
    }

    /// Takes note of one more; `item` is called where it is kept.
    pub(super) fn offer(&mut self, item: impl FnOnce() -> T) {
        if self.arrived % self.stride == 0 && self.kept.len() >= self.cap {
            self.shrink(self.cap - 1);
        }
        if self.arrived % self.stride == 0 {
            self.kept.push(item());
        }
        self.arrived += 1;
    }

    /// Keeps every second, and every second of those, until there are `cap` at most.
    pub(super) fn shrink(&mut self, cap: usize) {
        while self.kept.len() > cap.max(1) {
            let mut index = 0_usize;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
        }
    }

    pub(super) fn stride(&self) -> u64 {
        self.stride
    }

    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    pub(super) fn kept(&self) -> &[T] {
        &self.kept
    }
}

/// Those with the greatest scores, the earlier of those that tie.
#[derive(Debug, Clone)]
pub(super) struct Greatest<T> {
    cap: usize,
    arrived: u64,
    /// Numbers that are not negative are in the order of their bits.
    kept: BTreeMap<(u64, Reverse<u64>), T>,
}

impl<T> Greatest<T> {
    pub(super) fn new(cap: usize) -> Self {
        Self { cap, arrived: 0, kept: BTreeMap::new() }
    }

    /// Takes note of one more, with a score that is not negative; `item` is called where it is
    /// kept.
    pub(super) fn offer(&mut self, score: f64, item: impl FnOnce() -> T) {
        let key = (score.to_bits(), Reverse(self.arrived));
        self.arrived += 1;
        let is_kept = |(least, _): (&(u64, Reverse<u64>), &T)| key > *least;
        if self.kept.len() < self.cap || self.kept.first_key_value().is_some_and(is_kept) {
            self.kept.insert(key, item());
            self.shrink(self.cap);
        }
    }

    /// Keeps the greatest `cap` of them.
    pub(super) fn shrink(&mut self, cap: usize) {
        while self.kept.len() > cap {
            self.kept.pop_first();
        }
    }

    /// What is kept, the greatest first.
    pub(super) fn kept(&self) -> impl Iterator<Item = &T> {
        self.kept.values().rev()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_stride_doubles_when_there_are_too_many() {
        let mut strided = Strided::new(4);
        for item in 0..4 {
            strided.offer(|| item);
        }
        assert_eq!((strided.kept(), strided.stride()), (&[0, 1, 2, 3][..], 1));
        // The fifth makes room: of 0, 1, 2, 3 every second stays, and it is itself the next.
        strided.offer(|| 4);
        assert_eq!((strided.kept(), strided.stride()), (&[0, 2, 4][..], 2));
        for item in 5..9 {
            strided.offer(|| item);
        }
        assert_eq!((strided.kept(), strided.stride()), (&[0, 4, 8][..], 4));
        strided.shrink(2);
        assert_eq!((strided.kept(), strided.stride(), strided.arrived()), (&[0, 8][..], 8, 9));
    }

    #[test]
    fn the_greatest_stay_and_the_earlier_of_equals() {
        let mut greatest = Greatest::new(2);
        for (score, name) in [(1.0, "a"), (3.0, "b"), (1.0, "c"), (0.0, "d"), (3.0, "e")] {
            greatest.offer(score, || name);
        }
        assert_eq!(greatest.kept().copied().collect::<Vec<_>>(), ["b", "e"]);
        greatest.shrink(1);
        assert_eq!(greatest.kept().copied().collect::<Vec<_>>(), ["b"]);
    }

    proptest! {
        #[test]
        fn whatever_arrives_the_bounds_hold(
            scores in prop::collection::vec(0.0..10.0f64, 0..200),
            cap in 2..20usize,
        ) {
            let (mut strided, mut greatest) = (Strided::new(cap), Greatest::new(cap));
            for (index, &score) in scores.iter().enumerate() {
                strided.offer(|| index as u64);
                greatest.offer(score, || score);
            }
            let stride = usize::try_from(strided.stride()).unwrap();
            let expected: Vec<u64> = (0..scores.len() as u64).step_by(stride).collect();
            prop_assert!(strided.kept().len() <= cap);
            prop_assert_eq!(strided.kept(), &expected[..]);
            let mut sorted = scores.clone();
            sorted.sort_unstable_by(|a, b| b.total_cmp(a));
            sorted.truncate(cap);
            prop_assert_eq!(greatest.kept().copied().collect::<Vec<_>>(), sorted);
        }
    }
}
