//! The knot search in its plainest form: the oracle and the yardstick of the fast one.

use super::basis::{Basis, COLUMNS};
use super::fit::{Fitted, SplineModel, fit, row_at};
use super::search::{GAP, IMPROVEMENT, RELATIVE_IMPROVEMENT, SWEEPS, Search, learn, rescaled};
use crate::moments::Moments;
use crate::retention::Observation;
use crate::workload::FEATURES;

/// Searches for knots over rows and fits the spline there, as a store does at its first search.
pub fn search_knots(rows: &[Observation], knots_per_axis: usize) -> Option<SplineModel> {
    let searched = if knots_per_axis > 2 {
        learn::<8, 9>(&mut Search::new(rows.len()), rows.iter(), knots_per_axis, None).2
    } else {
        learn::<6, 7>(&mut Search::new(rows.len()), rows.iter(), knots_per_axis, None).2
    };
    Some(searched?.model)
}

/// As [`search_knots`], by refitting every candidate from the rows: slow and obvious.
pub fn search_knots_plainly(rows: &[Observation], knots_per_axis: usize) -> Option<SplineModel> {
    Some(learn_plainly(rows, knots_per_axis, None).1?.model)
}

/// The same search in its plainest form: every candidate is a basis of its own, fitted from the
/// rows; nothing is carried from one to the next.
pub(super) fn learn_plainly(
    rows: &[Observation],
    knots_per_axis: usize,
    previous: Option<&Basis>,
) -> (Basis, Option<Fitted>) {
    const STATISTICS: usize = COLUMNS + 1;
    let mut search = Search::<STATISTICS>::default();
    let mut basis = search.prepare(rows.iter(), knots_per_axis);
    let refit = |basis: &Basis| {
        let mut moments = Moments::default();
        moments.rebuild(rows.iter().map(|row| row_at(basis, row)));
        fit::<COLUMNS, STATISTICS>(&moments.centred(), basis, 0)
    };
    let Some(first) = refit(&basis) else { return (basis, None) };
    let margin = IMPROVEMENT.max(RELATIVE_IMPROVEMENT * first.total);
    let mut best = first.sse;
    if let Some(old) = previous.and_then(|previous| rescaled(previous, &basis)) {
        if let Some(fitted) = refit(&old).filter(|fitted| fitted.sse < best - margin) {
            (basis, best) = (old, fitted.sse);
        }
    }
    for _ in 0..SWEEPS {
        for axis in 0..FEATURES {
            for knot in 0..basis.axes[axis].knots().len() {
                let knots = basis.axes[axis].knots();
                let left = if knot == 0 { 0.0 } else { knots[knot - 1] };
                let last = rows.iter().map(|row| row.features[axis]).fold(0.0, f64::max);
                let scale = basis.axes[axis].scale();
                let right = knots.get(knot + 1).copied().unwrap_or(last / scale);
                for &candidate in &search.candidates[axis] {
                    if candidate <= left + GAP || candidate >= right - GAP {
                        continue;
                    }
                    let mut moved = basis;
                    moved.axes[axis].place(knot, candidate);
                    if let Some(fitted) = refit(&moved).filter(|fitted| fitted.sse < best - margin)
                    {
                        (basis, best) = (moved, fitted.sse);
                    }
                }
            }
        }
    }
    let fitted = refit(&basis);
    (basis, fitted)
}
