//! The adaptive fit as its users meet it: synthetic engines of known truth, and recordings.

#![allow(clippy::unwrap_used, clippy::panic)] // in tests
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of small random numbers

mod accuracy;
mod choice;
mod determinism;
#[path = "../shared/recordings.rs"]
mod found;
mod intervals;
mod monotone;
mod queries;
mod recordings;
mod regimes;
mod synthetic;
