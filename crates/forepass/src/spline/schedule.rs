//! When to search for knots: every so many observations, or once the spline has become wrong.

use std::collections::VecDeque;

use crate::config::{AdaptiveSearch, SplineSearchConfig};

/// Observations that must have been learned before the first search.
const FIRST_SEARCH: u64 = 32;

/// The clock of a store's searches, and what it watches.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schedule {
    policy: SplineSearchConfig,
    min_observations: u64,
    accepted: u64,
    searches: u64,
    last_search: Option<u64>,
    /// Whether each of the latest forecasts was bad, oldest first, and how many were.
    recent: VecDeque<bool>,
    bad: usize,
}

impl Schedule {
    pub(super) fn new(policy: &SplineSearchConfig, min_observations: usize) -> Self {
        let window = match policy {
            SplineSearchConfig::Adaptive(adaptive) => adaptive.window,
            SplineSearchConfig::Periodic { .. } => 0,
        };
        Self {
            policy: policy.clone(),
            min_observations: min_observations as u64,
            accepted: 0,
            searches: 0,
            last_search: None,
            recent: VecDeque::with_capacity(window),
            bad: 0,
        }
    }

    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(super) fn searches(&self) -> u64 {
        self.searches
    }

    pub(super) fn last_search(&self) -> Option<u64> {
        self.last_search
    }

    /// Whether the policy watches forecasts.
    pub(super) fn is_adaptive(&self) -> bool {
        matches!(self.policy, SplineSearchConfig::Adaptive(_))
    }

    /// Takes note of a forecast that was made before its observation was learned.
    ///
    /// A forecast that was not there, or not finite, says nothing.
    pub(super) fn monitor(&mut self, prior_ms: Option<f64>, observed_ms: f64) {
        let SplineSearchConfig::Adaptive(adaptive) = &self.policy else {
            return;
        };
        let Some(prior_ms) = prior_ms.filter(|prior_ms| prior_ms.is_finite()) else {
            return;
        };
        let allowed = adaptive.absolute_tolerance_ms.max(adaptive.tolerance * observed_ms);
        let is_bad = (prior_ms - observed_ms).abs() > allowed;
        if self.recent.len() >= adaptive.window {
            self.bad -= usize::from(self.recent.pop_front() == Some(true));
        }
        self.recent.push_back(is_bad);
        self.bad += usize::from(is_bad);
    }

    /// Counts an observation that was learned; whether a search is due with it.
    pub(super) fn is_due(&mut self, retained: usize) -> bool {
        self.accepted = self.accepted.saturating_add(1);
        if (retained as u64) < self.min_observations {
            return false;
        }
        let Some(last_search) = self.last_search else {
            return self.accepted >= FIRST_SEARCH.max(self.min_observations);
        };
        match &self.policy {
            SplineSearchConfig::Periodic { step } => self.accepted % step == 0,
            SplineSearchConfig::Adaptive(AdaptiveSearch { cooldown, trigger, .. }) => {
                self.accepted - last_search >= *cooldown && self.bad >= *trigger
            }
        }
    }

    /// Takes note of a search; what was watched before says nothing about its knots.
    pub(super) fn searched(&mut self) {
        self.searches = self.searches.saturating_add(1);
        self.last_search = Some(self.accepted);
        self.recent.clear();
        self.bad = 0;
    }
}
