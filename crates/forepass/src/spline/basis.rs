//! The columns of the spline: how far each feature has come along each stretch between knots.

use crate::workload::FEATURES;

/// Most interior knots an axis can have.
pub const MAX_KNOTS: usize = 3;

/// Segments of one axis at the most.
const SEGMENTS: usize = MAX_KNOTS + 1;

/// Columns at the most: the segments of the first axis, then those of the second.
pub const COLUMNS: usize = FEATURES * SEGMENTS;

/// Segments that each axis has among so many columns, or columns and the latency.
pub(super) const fn segments(columns: usize) -> usize {
    assert!(columns / FEATURES <= SEGMENTS, "more segments than an axis can have");
    columns / FEATURES
}

/// One axis cut into segments, in a unit of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    /// The unit: the largest retained value at the search that cut the axis.
    scale: f64,
    segments: usize,
    /// Where each segment starts, the first at zero; infinity for those that are not in use.
    start: [f64; SEGMENTS],
    /// How long each is: infinity for the last one, zero for those that are not in use.
    width: [f64; SEGMENTS],
}

impl Axis {
    /// An axis in units of `scale` that is not cut yet.
    pub(super) fn new(scale: f64) -> Self {
        let mut axis =
            Self { scale, segments: 1, start: [f64::INFINITY; SEGMENTS], width: [0.0; SEGMENTS] };
        axis.start[0] = 0.0;
        axis.width[0] = f64::INFINITY;
        axis
    }

    /// The unit of the axis.
    pub(super) fn scale(&self) -> f64 {
        self.scale
    }

    /// The interior knots in that unit, ascending.
    pub fn knots(&self) -> &[f64] {
        &self.start[1..self.segments]
    }

    /// Cuts the axis once more, beyond the other knots; more than [`MAX_KNOTS`] times does nothing.
    pub(super) fn cut(&mut self, knot: f64) {
        if self.segments < SEGMENTS {
            self.segments += 1;
            self.width[self.segments - 1] = f64::INFINITY;
            self.place(self.segments - 2, knot);
        }
    }

    /// Moves a knot; it must stay between its neighbours.
    pub(super) fn place(&mut self, knot: usize, at: f64) {
        self.start[knot + 1] = at;
        self.width[knot] = at - self.start[knot];
        if knot + 2 < self.segments {
            self.width[knot + 1] = self.start[knot + 2] - at;
        }
    }
}

/// Both axes, cut.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Basis {
    /// The axes, in the order of the features.
    pub axes: [Axis; FEATURES],
}

impl Basis {
    /// Axes in units of `scale`, cut at `knots` in those units.
    ///
    /// `None` unless each unit is positive and each axis has up to [`MAX_KNOTS`] knots, positive
    /// and ascending.
    pub fn new(scale: [f64; FEATURES], knots: [&[f64]; FEATURES]) -> Option<Self> {
        let mut axes = scale.map(Axis::new);
        for (axis, knots) in axes.iter_mut().zip(knots) {
            let mut last = 0.0;
            for &knot in knots {
                let is_next = knot.is_finite() && knot > last;
                last = knot;
                axis.cut(is_next.then_some(knot)?);
            }
            let is_unit = axis.scale.is_finite() && axis.scale > 0.0;
            if !is_unit || knots.len() > MAX_KNOTS {
                return None;
            }
        }
        Some(Self { axes })
    }

    /// The columns of a load: of a segment from `l` to `r`, how far `x` has come from `l`, up to
    /// `r - l`.
    ///
    /// `N` has room for as many segments of each axis, in use or not, and perhaps one number more;
    /// what is not in use is zero.
    pub(super) fn columns<const N: usize>(&self, features: &[f64; FEATURES]) -> [f64; N] {
        let segments = const { segments(N) };
        let mut columns = [0.0; N];
        for (index, axis) in self.axes.iter().enumerate() {
            let x = features[index] / axis.scale;
            for segment in 0..segments {
                let along = (x - axis.start[segment]).max(0.0).min(axis.width[segment]);
                columns[index * segments + segment] = along;
            }
        }
        columns
    }

    /// The knots in raw units of the features.
    pub(crate) fn raw_knots(&self) -> [Vec<f64>; FEATURES] {
        let raw = |axis: &Axis| axis.knots().iter().map(|knot| knot * axis.scale).collect();
        std::array::from_fn(|index| raw(&self.axes[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basis(first: &[f64], second: &[f64]) -> Basis {
        Basis::new([1.0, 2.0], [first, second]).unwrap()
    }

    #[test]
    fn knots_are_positive_and_ascending_and_few() {
        let refused = |scale, knots| Basis::new([scale, 1.0], [knots, &[]]).is_none();
        assert!(refused(1.0, &[0.5, 0.5]) && refused(1.0, &[0.0]) && refused(1.0, &[f64::NAN]));
        assert!(refused(1.0, &[0.1, 0.2, 0.3, 0.4]) && refused(0.0, &[0.5]));
    }

    #[test]
    fn each_segment_counts_how_far_a_load_has_come_along_it() {
        let basis = basis(&[0.25, 0.75], &[0.5]);
        // 0.5 is past the first segment (0.25 long) and 0.25 into the second; 3 / 2 = 1.5 is past
        // the first segment (0.5 long) and 1 into the last.
        assert_eq!(basis.columns(&[0.5, 3.0]), [0.25, 0.25, 0.0, 0.0, 0.5, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn a_hinge_is_zero_at_its_knot_and_continuous_around_it() {
        // Case C2.
        let basis = basis(&[0.3], &[]);
        let at = |x: f64| basis.columns::<COLUMNS>(&[x, 0.0]);
        assert_eq!(at(0.3)[..2], [0.3, 0.0]);
        assert_eq!(at(0.3_f64.next_down())[1], 0.0);
        let above = at(0.3_f64.next_up());
        assert!(above[0] == 0.3 && above[1] > 0.0 && above[1] < 1e-16);
    }

    #[test]
    fn without_knots_an_axis_is_one_segment() {
        let basis = basis(&[], &[]);
        assert_eq!(basis.columns(&[5.0, 4.0]), [5.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn a_moved_knot_moves_the_ends_of_both_its_segments() {
        let mut moved = basis(&[0.2, 0.5, 0.8], &[0.5]);
        moved.axes[0].place(1, 0.6);
        assert_eq!(moved, basis(&[0.2, 0.6, 0.8], &[0.5]));
        moved.axes[0].place(2, 0.9);
        assert_eq!(moved, basis(&[0.2, 0.6, 0.9], &[0.5]));
    }
}
