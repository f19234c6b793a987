//! Finds a scheme by its name: those built in, then those that a program registered.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::backend::Backend;
use super::builtin;
use super::draft::Draft;
use crate::codes::{E_KIND, E_PARAM, E_RUNTIME};
use crate::config::SpeculationConfig;
use crate::error::{Error, Result};

/// A way to draft tokens.
///
/// A scheme that needs something that is not there (an interpreter, say) refuses with
/// [`E_RUNTIME`]; it never panics.
pub trait SpeculationScheme: Send + Sync {
    /// The name by which configurations ask for the scheme.
    fn kind(&self) -> &str;

    /// The backends on which a launch can use the scheme.
    fn backends(&self) -> &[Backend] {
        &[Backend::Vllm, Backend::Sglang]
    }

    /// What the scheme drafts with these parameters.
    ///
    /// # Errors
    /// An [`Error::Speculation`] whose path is within the speculation block.
    fn resolve(&self, config: &SpeculationConfig) -> Result<Draft>;
}

static REGISTERED: RwLock<BTreeMap<String, Arc<dyn SpeculationScheme>>> =
    RwLock::new(BTreeMap::new());

/// Makes a scheme known to the whole process under its name.
///
/// # Errors
/// `E_KIND` where the name is blank, built in or registered already.
pub fn register_scheme(scheme: Arc<dyn SpeculationScheme>) -> Result<()> {
    let kind = scheme.kind().to_owned();
    let refuse = |why: &str| Err(Error::speculation(E_KIND, "kind", format!("{kind:?}: {why}")));
    if kind.trim().is_empty() {
        return refuse("the name of a scheme must not be blank");
    }
    if builtin::scheme(&kind).is_some() {
        return refuse("built in: register the scheme under another name");
    }
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if registered.contains_key(&kind) {
        return refuse("registered already: unregister it first, or choose another name");
    }
    registered.insert(kind, scheme);
    Ok(())
}

/// Forgets a registered scheme; tells whether there was one.
pub fn unregister_scheme(kind: &str) -> bool {
    // Dropped after the lock is released: what a scheme does on its way out is its own affair.
    let removed = REGISTERED.write().unwrap_or_else(PoisonError::into_inner).remove(kind);
    removed.is_some()
}

/// Names of all schemes: those built in, then those registered, in alphabetical order.
pub fn scheme_names() -> Vec<String> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    let builtin = builtin::SCHEMES.iter().map(|scheme| scheme.kind().to_owned());
    builtin.chain(registered.keys().cloned()).collect()
}

/// Backends on which a launch can use the scheme of this name.
///
/// # Errors
/// `E_KIND` for a scheme that is not known.
pub fn scheme_backends(kind: &str) -> Result<Vec<Backend>> {
    with_scheme(kind, |scheme| scheme.backends().to_vec())
}

/// Asks the scheme of this name.
pub(super) fn with_scheme<T>(
    kind: &str,
    ask: impl FnOnce(&dyn SpeculationScheme) -> T,
) -> Result<T> {
    if let Some(scheme) = builtin::scheme(kind) {
        return Ok(ask(scheme));
    }
    // The lock is not held while the scheme answers: it may ask for another one.
    let registered =
        REGISTERED.read().unwrap_or_else(PoisonError::into_inner).get(kind).map(Arc::clone);
    match registered {
        Some(scheme) => Ok(ask(&Checked(scheme))),
        None => Err(Error::speculation(
            E_KIND,
            "kind",
            format!("no scheme {kind:?}: known are {}", scheme_names().join(", ")),
        )),
    }
}

/// A registered scheme, whose answers are taken to be no better than any other input.
struct Checked(Arc<dyn SpeculationScheme>);

impl SpeculationScheme for Checked {
    fn kind(&self) -> &str {
        self.0.kind()
    }

    fn backends(&self) -> &[Backend] {
        self.0.backends()
    }

    fn resolve(&self, config: &SpeculationConfig) -> Result<Draft> {
        let draft = self.0.resolve(config).map_err(|error| match error {
            Error::Speculation { .. } => error,
            other => Error::speculation(E_PARAM, other.path(), other.to_string()),
        })?;
        if draft.verify_width <= draft.depth || draft.kind != config.kind {
            return Err(Error::speculation(
                E_RUNTIME,
                "kind",
                format!(
                    "the scheme registered as {:?} answers with kind {:?}, depth {} and verify \
                     width {}: the kind must be its own, and the width greater than the depth",
                    config.kind, draft.kind, draft.depth, draft.verify_width
                ),
            ));
        }
        Ok(draft)
    }
}
