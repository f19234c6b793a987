//! The columns of the spline: how far each feature has come along each stretch between knots.

use crate::workload::FEATURES;

/// Most interior knots an axis can have.
pub const MAX_KNOTS: usize = 3;

/// Segments of one axis at the most.
pub(super) const SEGMENTS: usize = MAX_KNOTS + 1;

/// Columns at the most: the segments of the first axis, then those of the second.
pub const COLUMNS: usize = FEATURES * SEGMENTS;

/// Interior knots of one axis in scaled units, ascending.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Knots {
    at: [f64; MAX_KNOTS],
    count: usize,
}

impl Knots {
    /// The knots, ascending.
    pub fn as_slice(&self) -> &[f64] {
        &self.at[..self.count]
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.at[..self.count]
    }

    /// Adds a knot beyond the others; one more than [`MAX_KNOTS`] is left out.
    pub(super) fn push(&mut self, knot: f64) {
        if let Some(place) = self.at.get_mut(self.count) {
            *place = knot;
            self.count += 1;
        }
    }
}

/// Where an axis is cut, and the unit in which.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Basis {
    /// Unit of each axis: its largest retained value at the last search.
    pub scale: [f64; FEATURES],
    /// Interior knots of each axis in that unit.
    pub knots: [Knots; FEATURES],
}

impl Basis {
    /// The columns of a load: of segment `[l, r]` how far `x` has come from `l`, up to `r - l`.
    ///
    /// The last segment has no end. Unused columns are zero.
    pub(super) fn columns(&self, features: &[f64; FEATURES]) -> [f64; COLUMNS] {
        let mut columns = [0.0; COLUMNS];
        for axis in 0..FEATURES {
            let x = features[axis] / self.scale[axis];
            let knots = &self.knots[axis];
            let mut left = 0.0;
            for segment in 0..=knots.count {
                let width = if segment < knots.count {
                    knots.at[segment] - left
                } else {
                    f64::INFINITY
                };
                columns[axis * SEGMENTS + segment] = (x - left).clamp(0.0, width);
                left = knots.at[segment.min(MAX_KNOTS - 1)];
            }
        }
        columns
    }

    /// The knots in raw units of the features.
    pub(super) fn raw_knots(&self) -> [Vec<f64>; FEATURES] {
        std::array::from_fn(|axis| {
            self.knots[axis]
                .as_slice()
                .iter()
                .map(|knot| knot * self.scale[axis])
                .collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basis(first: &[f64], second: &[f64]) -> Basis {
        let mut basis = Basis {
            scale: [1.0, 2.0],
            knots: [Knots::default(); FEATURES],
        };
        for (knots, given) in basis.knots.iter_mut().zip([first, second]) {
            given.iter().for_each(|&knot| knots.push(knot));
        }
        basis
    }

    #[test]
    fn each_segment_counts_how_far_a_load_has_come_along_it() {
        let basis = basis(&[0.25, 0.75], &[0.5]);
        // 0.5 is past the first segment (0.25 long) and 0.25 into the second; 3 / 2 = 1.5 is past
        // the first segment (0.5 long) and 1 into the last.
        assert_eq!(
            basis.columns(&[0.5, 3.0]),
            [0.25, 0.25, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0]
        );
    }

    #[test]
    fn a_hinge_is_zero_at_its_knot_and_continuous_around_it() {
        // Case C2.
        let basis = basis(&[0.3], &[]);
        let at = |x: f64| basis.columns(&[x, 0.0]);
        assert_eq!(at(0.3)[..2], [0.3, 0.0]);
        assert_eq!(at(0.3_f64.next_down())[1], 0.0);
        let above = at(0.3_f64.next_up());
        assert!(above[0] == 0.3 && above[1] > 0.0 && above[1] < 1e-16);
    }

    #[test]
    fn without_knots_an_axis_is_one_segment() {
        let basis = basis(&[], &[]);
        assert_eq!(
            basis.columns(&[5.0, 4.0]),
            [5.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]
        );
    }
}
