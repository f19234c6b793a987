//! What a launch of an engine means.

pub mod engines;
