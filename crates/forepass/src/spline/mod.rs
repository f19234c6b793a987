//! The continuous additive spline: a price for each stretch of each feature, between learned knots.

mod basis;
mod fit;
mod schedule;
mod search;

pub use basis::{Axis, Basis, COLUMNS, MAX_KNOTS};
pub use fit::{SplineDiagnostics, SplineFit, SplineModel};
