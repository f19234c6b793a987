//! How far the reading of traces has come, and the wish to stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Shared between who reads traces and who watches.
#[derive(Debug, Default)]
pub struct Progress {
    bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl Progress {
    /// Bytes of the input files read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Asks the reading to stop; it then fails with [`Error::Cancelled`].
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Counts bytes that were read; an error where it is time to stop.
    pub(crate) fn advance(&self, bytes: u64) -> Result<()> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}
