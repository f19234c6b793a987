//! Relative errors of rows: each by itself while there are few, counted by size once there are many.

use std::cmp::Ordering;

use crate::quantile::interpolated_quantile;

/// Rows up to which each error is kept. As many as fill the room of the counts.
pub(super) const KEPT: usize = 1 << (f32::MANTISSA_DIGITS - 1 + 8 - DROPPED_BITS);

/// Bits of a size that do not count: of the 23 of its fraction nine stay, so that sizes within a
/// five-hundredth of each other are counted together.
const DROPPED_BITS: u32 = 14;

/// The errors of one fit over eligible rows, in room that is bounded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Errors {
    /// `(predicted - observed) / observed`, and not a number where there is no answer.
    kept: Vec<f64>,
    keep_at_most: usize,
    counted: Option<Counted>,
}

/// Errors that are not kept one by one.
#[derive(Debug, Clone, PartialEq)]
struct Counted {
    eligible: u64,
    answered: u64,
    sum: f64,
    size_sum: f64,
    /// How many there are of each size, by its leading bits, which ascend with it.
    by_size: Vec<u64>,
}

impl Errors {
    /// None yet; they are counted once there are more than `keep_at_most`.
    pub(super) fn new(keep_at_most: usize) -> Self {
        Self { kept: Vec::new(), keep_at_most, counted: None }
    }

    /// Takes in the error of an eligible row, not a number where it was not answered.
    pub(super) fn add(&mut self, error: f64) {
        if let Some(counted) = &mut self.counted {
            counted.add(error);
            return;
        }
        self.kept.push(error);
        if self.kept.len() > self.keep_at_most {
            self.counted = Some(Counted::of(&std::mem::take(&mut self.kept)));
        }
    }

    /// The errors in their order; none where they are counted.
    pub(super) fn kept(&self) -> &[f64] {
        &self.kept
    }

    /// Those from a place on.
    pub(super) fn from(&self, start: usize) -> Self {
        let kept = self.kept.get(start..).unwrap_or_default().to_vec();
        Self { kept, ..Self::new(self.keep_at_most) }
    }
}

impl Counted {
    fn of(errors: &[f64]) -> Self {
        let by_size = vec![0; KEPT];
        let mut counted = Self { eligible: 0, answered: 0, sum: 0.0, size_sum: 0.0, by_size };
        counted.extend(errors);
        counted
    }

    fn extend(&mut self, errors: &[f64]) {
        for &error in errors {
            self.add(error);
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn add(&mut self, error: f64) {
        self.eligible += 1;
        if error.is_nan() {
            return;
        }
        self.answered += 1;
        self.sum += error;
        self.size_sum += error.abs();
        let size = (error.abs() as f32).min(f32::MAX);
        self.by_size[(size.to_bits() >> DROPPED_BITS) as usize] += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.eligible += other.eligible;
        self.answered += other.answered;
        self.sum += other.sum;
        self.size_sum += other.size_sum;
        for (count, more) in self.by_size.iter_mut().zip(&other.by_size) {
            *count += more;
        }
    }

    /// The size of this rank, from 0: the middle of those that it is counted with.
    fn size(&self, rank: u64) -> f64 {
        let mut below = 0;
        let mut places = (0_u32..).zip(&self.by_size);
        let place = places.find_map(|(place, count)| {
            below += count;
            (below > rank).then_some(place)
        });
        let edge = |place: u32| f64::from(f32::from_bits(place << DROPPED_BITS).min(f32::MAX));
        place.map_or(0.0, |place| 0.5 * (edge(place) + edge(place + 1)))
    }
}

/// What the errors of some rows come to.
pub(super) struct Spread {
    pub(super) eligible: u64,
    pub(super) answered: u64,
    pub(super) sum: f64,
    pub(super) size_sum: f64,
    sizes: Sizes,
}

enum Sizes {
    Ascending(Vec<f64>),
    Counted(Counted),
}

impl Spread {
    /// Over several, one after the other: exact as long as none of them is counted.
    pub(super) fn of<'a>(errors: &(impl Iterator<Item = &'a Errors> + Clone)) -> Self {
        let kept = || errors.clone().flat_map(|errors| &errors.kept).copied();
        if errors.clone().all(|errors| errors.counted.is_none()) {
            let answered = || kept().filter(|error| !error.is_nan());
            let mut sizes = Vec::with_capacity(answered().count());
            sizes.extend(answered().map(f64::abs));
            sizes.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
            return Self {
                eligible: errors.clone().map(|errors| errors.kept.len() as u64).sum(),
                answered: sizes.len() as u64,
                sum: answered().sum(),
                size_sum: sizes.iter().sum(),
                sizes: Sizes::Ascending(sizes),
            };
        }
        let mut all = Counted::of(&[]);
        for errors in errors.clone() {
            all.extend(&errors.kept);
            if let Some(counted) = &errors.counted {
                all.merge(counted);
            }
        }
        Self {
            eligible: all.eligible,
            answered: all.answered,
            sum: all.sum,
            size_sum: all.size_sum,
            sizes: Sizes::Counted(all),
        }
    }

    /// The size that a share of the answered errors stays within.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        match &self.sizes {
            Sizes::Ascending(sizes) => interpolated_quantile(sizes, share),
            Sizes::Counted(counted) => {
                let last = self.answered.checked_sub(1)?;
                Some(counted.size((share * last as f64).round() as u64))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spread(errors: &[f64], keep_at_most: usize) -> Spread {
        let mut all = Errors::new(keep_at_most);
        for &error in errors {
            all.add(error);
        }
        Spread::of(&[all].iter())
    }

    #[test]
    fn counted_sizes_are_told_to_a_thousandth() {
        // Errors of 1 % to 109 %, every eleventh row unanswered: the 51st of 100 sizes is 56 %.
        let errors = (1..=110).map(|i| if i % 11 == 0 { f64::NAN } else { f64::from(i) / -100.0 });
        let counted = spread(&errors.collect::<Vec<_>>(), 5);
        assert_eq!((counted.eligible, counted.answered), (110, 100));
        let is_near =
            |share, size: f64| (counted.quantile(share).unwrap() / size - 1.0).abs() < 1.0 / 900.0;
        assert!(is_near(0.0, 0.01) && is_near(0.5, 0.56) && is_near(1.0, 1.09));
        assert_eq!(spread(&[f64::NAN; 9], 5).quantile(0.5), None);
        assert!(spread(&[1e300; 9], 5).quantile(0.5).unwrap().is_finite());
    }

    #[test]
    fn what_follows_a_place_is_kept_in_order() {
        let mut errors = Errors::new(9);
        for error in [0.1, f64::NAN, 0.3] {
            errors.add(error);
        }
        assert_eq!(errors.from(2).kept(), [0.3]);
        assert_eq!(errors.from(7).kept(), [0.0; 0]);
    }

    proptest! {
        #[test]
        fn counting_says_what_keeping_says(
            errors in prop::collection::vec(prop_oneof![
                4 => (-6.0..3.0f64, any::<bool>()).prop_map(|(power, is_low)| {
                    10f64.powf(power) * if is_low { -1.0 } else { 1.0 }
                }),
                1 => Just(f64::NAN),
            ], 1..300),
            share in 0.0..=1.0f64,
            cut in 0..300_usize,
        ) {
            let exact = spread(&errors, 300);
            // Half of them counted, half of them kept, whichever comes first.
            let (first, second) = errors.split_at(cut.min(errors.len()));
            let halves = [(first, 10), (second, 300)].map(|(half, keep_at_most)| {
                let mut all = Errors::new(keep_at_most);
                for &error in half {
                    all.add(error);
                }
                all
            });
            let both = Spread::of(&halves.iter());
            prop_assert_eq!((both.eligible, both.answered), (exact.eligible, exact.answered));
            prop_assert!((both.size_sum - exact.size_sum).abs() <= 1e-9 * exact.size_sum);
            prop_assert!((both.sum - exact.sum).abs() <= 1e-9 * exact.size_sum);
            let Some(last) = exact.answered.checked_sub(1) else { return Ok(()) };
            // At a rank, not between two.
            let share = if last == 0 { 0.0 } else { (share * last as f64).round() / last as f64 };
            let (told, right) = (both.quantile(share).unwrap(), exact.quantile(share).unwrap());
            prop_assert!((told / right - 1.0).abs() < 1.0 / 900.0, "{told} of {right}");
        }
    }
}
