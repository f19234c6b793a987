//! The continuous additive spline: a price for each stretch of each feature, between learned knots.
//!
//! Its options grow without breaking callers: they are built by constructors, and matching on them
//! leaves room for more.
//!
//! ```compile_fail
//! use forepass::config::SplineSearchConfig;
//!
//! fn step(search: &SplineSearchConfig) -> u64 {
//!     match search {
//!         SplineSearchConfig::Adaptive(_) => 0,
//!         SplineSearchConfig::Periodic { step, .. } => *step,
//!     }
//! }
//! ```
//!
//! ```compile_fail
//! let options = forepass::config::SplineFitConfig {
//!     knots_per_axis: 2,
//!     search: forepass::config::SplineSearchConfig::periodic(64),
//! };
//! ```
//!
//! ```
//! use forepass::config::{SplineFitConfig, SplineSearchConfig};
//!
//! let options = SplineFitConfig::default().with_search(SplineSearchConfig::periodic(64));
//! match options.search {
//!     SplineSearchConfig::Periodic { step, .. } => assert_eq!(step, 64),
//!     _ => unreachable!(),
//! }
//! ```

mod basis;
mod bound;
mod fit;
mod plain;
mod schedule;
mod search;
mod sums;

pub use basis::{Axis, Basis, COLUMNS, MAX_KNOTS};
pub use fit::{SplineDiagnostics, SplineFit, SplineModel};
pub(crate) use fit::{fit_weighted, row_at};
pub use plain::{search_knots, search_knots_plainly};
pub(crate) use search::{Search, find_weighted_knots};
