//! The forecaster: one store for each kind of work, taught and asked iteration by iteration.

use std::collections::BTreeMap;
use std::slice::from_ref;

use serde::Serialize;

use crate::batch::{Columns, in_row};
use crate::config::{CheckedConfig, CheckedFit, ForwardPassPerfModelConfig};
use crate::error::{Error, Result};
use crate::forecast::Forecast;
use crate::metrics::ForwardPassMetrics;
use crate::retention::Observation;
use crate::store::{Store, StoreDiagnostics, Upkeep};
use crate::workload::{Rejection, WorkerType, Workload, WorkloadKind, observed_ms};

/// Learns from the forward-pass metrics of one worker or deployment, and forecasts.
///
/// ```
/// use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
/// use forepass::{ForwardPassMetrics, ForwardPassModel, WorkerType};
///
/// let config = ForwardPassPerfModelConfig::for_worker(
///     WorkerType::Aggregated,
///     EstimatorConfig::default(),
/// );
/// let mut model = ForwardPassModel::new(config.check()?);
/// for requests in 1..=8 {
///     let step = ForwardPassMetrics::decode(requests, 1000 * requests)
///         .with_wall_time(0.010 + 0.001 * requests as f64);
///     model.observe(&[step])?;
/// }
/// let ms = model.predict(&[ForwardPassMetrics::decode(16, 16_000)])?;
/// assert!((ms.unwrap() - 26.0).abs() < 1e-9);
/// # Ok::<(), forepass::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ForwardPassModel {
    config: CheckedConfig,
    stores: Vec<Store>,
    counts: Counts,
}

/// What became of the observations so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    accepted: u64,
    idle: u64,
    rejected: [u64; Rejection::ALL.len()],
}

/// What became of one observation.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Observed {
    /// Learned by the store of this kind, with this latency in milliseconds.
    Learned(WorkloadKind, f64),
    /// No rank had work, so there was nothing to learn.
    Idle,
    /// Work of this kind, unfit to learn from.
    Rejected(WorkloadKind, Rejection),
}

/// The state of a model, for people and monitoring.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Diagnostics {
    /// `ready` when at least one store answers, else `insufficient_data`.
    pub readiness: &'static str,
    /// Whether at least one store answers.
    pub ready: bool,
    /// Observations learned since the start.
    pub accepted_observations: u64,
    /// Observations kept now, over all stores.
    pub retained_observations: usize,
    /// Observations without work.
    pub idle_observations: u64,
    /// Observations unfit to learn from, by reason.
    pub rejected_observations: BTreeMap<&'static str, u64>,
    /// Each store's own state.
    pub stores: Vec<StoreDiagnostics>,
}

impl ForwardPassModel {
    /// A model that has learned nothing.
    pub fn new(config: CheckedConfig) -> Self {
        let (bins, max_observations) = (config.bins_per_axis(), config.max_observations());
        let (fit, freshness) = (config.fit(), config.freshness());
        let kinds = config.worker_type().kinds().iter();
        let stores = kinds.map(|&kind| Store::new(kind, bins, max_observations, freshness, fit));
        Self { stores: stores.collect(), config, counts: Counts::default() }
    }

    /// The configuration in its canonical normal form.
    pub fn config(&self) -> &ForwardPassPerfModelConfig {
        self.config.normalized()
    }

    /// What the worker serves.
    pub fn worker_type(&self) -> WorkerType {
        self.config.worker_type()
    }

    /// The workload of one iteration, `None` when it is idle.
    ///
    /// # Errors
    /// A malformed record, an empty list, or work that is not of the worker's role.
    pub fn workload(&self, ranks: &[ForwardPassMetrics]) -> Result<Option<Workload>> {
        Workload::of(ranks, self.config.worker_type(), &self.config.weights())
    }

    /// Learns one iteration, given as the records of all its ranks.
    ///
    /// # Errors
    /// As [`workload`](Self::workload); the model is then unchanged.
    pub fn observe(&mut self, ranks: &[ForwardPassMetrics]) -> Result<Observed> {
        let workload = self.workload(ranks)?;
        Ok(self.learn(workload, observed_ms(ranks)))
    }

    /// Learns iterations in order, all or none of them.
    ///
    /// # Errors
    /// The first iteration that is malformed, by its index; the model is then unchanged.
    pub fn observe_batch<R: AsRef<[ForwardPassMetrics]>>(
        &mut self,
        iterations: &[R],
    ) -> Result<()> {
        let workloads = iterations
            .iter()
            .enumerate()
            .map(|(index, ranks)| {
                self.workload(ranks.as_ref()).map_err(|error| error.within(&format!("[{index}]")))
            })
            .collect::<Result<Vec<_>>>()?;
        for (workload, ranks) in workloads.into_iter().zip(iterations) {
            self.learn(workload, observed_ms(ranks.as_ref()));
        }
        Ok(())
    }

    /// Learns single-rank iterations given as columns, in order, all or none of them.
    ///
    /// # Errors
    /// The first row that is malformed, by its column and index; the model is then unchanged.
    pub fn observe_columns(&mut self, columns: &Columns<'_>) -> Result<()> {
        let records = (0..columns.len())
            .map(|row| {
                let record = columns.record(row)?;
                Ok((self.workload(from_ref(&record))?, observed_ms(from_ref(&record))))
            })
            .enumerate()
            .map(|(row, record)| record.map_err(|error| in_row(error, row)))
            .collect::<Result<Vec<_>>>()?;
        for (workload, observed) in records {
            self.learn(workload, observed);
        }
        Ok(())
    }

    /// Counts, and where it is fit for it learns, what was observed of a workload.
    pub(crate) fn learn(
        &mut self,
        workload: Option<Workload>,
        observed: std::result::Result<f64, Rejection>,
    ) -> Observed {
        let Some(workload) = workload else {
            self.counts.idle = self.counts.idle.saturating_add(1);
            return Observed::Idle;
        };
        let Workload { kind, features, .. } = workload;
        let floor_ms = self.floor_ms(&workload);
        match (observed, self.stores.iter_mut().find(|store| store.kind() == kind)) {
            (Ok(latency_ms), Some(store)) => {
                store.observe(Observation { features, latency_ms }, floor_ms);
                self.counts.accepted = self.counts.accepted.saturating_add(1);
                Observed::Learned(kind, latency_ms)
            }
            (Err(rejection), _) => {
                let count = &mut self.counts.rejected[rejection as usize];
                *count = count.saturating_add(1);
                Observed::Rejected(kind, rejection)
            }
            // The role check leaves no kind without a store.
            (Ok(_), None) => Observed::Idle,
        }
    }

    /// How long the iteration would take, in milliseconds; `None` where that is not known.
    ///
    /// # Errors
    /// As [`workload`](Self::workload).
    pub fn predict(&self, ranks: &[ForwardPassMetrics]) -> Result<Option<f64>> {
        Ok(self.forecast(ranks)?.ms)
    }

    /// How long the iteration would take, what says so, and why it may not be known.
    ///
    /// # Errors
    /// As [`workload`](Self::workload).
    pub fn forecast(&self, ranks: &[ForwardPassMetrics]) -> Result<Forecast> {
        Ok(self.forecast_workload(self.workload(ranks)?.as_ref()))
    }

    /// As [`forecast`](Self::forecast), with the interval that holds a share `level` of latencies,
    /// where past errors tell it.
    ///
    /// # Errors
    /// As [`workload`](Self::workload), and a level that is not between 0 and 1.
    pub fn forecast_at(&self, ranks: &[ForwardPassMetrics], level: f64) -> Result<Forecast> {
        if !(level > 0.0 && level < 1.0) {
            return Err(Error::metrics(
                "invalid_level",
                "level",
                format!("{level}: must be between 0 and 1, both excluded"),
            ));
        }
        let workload = self.workload(ranks)?;
        Ok(self.forecast_workload_at(workload.as_ref(), level))
    }

    /// The forecast of a workload with the interval at a level between 0 and 1.
    pub(crate) fn forecast_workload_at(&self, workload: Option<&Workload>, level: f64) -> Forecast {
        let forecast = self.forecast_workload(workload);
        let interval_ms =
            forecast.kind.and_then(|kind| self.store(kind)?.interval(forecast.ms?, level));
        Forecast { interval_ms, ..forecast }
    }

    /// The forecast of a workload; `None` stands for an idle iteration.
    pub(crate) fn forecast_workload(&self, workload: Option<&Workload>) -> Forecast {
        let Some(workload) = workload else {
            return Forecast::IDLE;
        };
        self.store(workload.kind).map_or(Forecast::IDLE, |store| {
            store.forecast(&workload.features, self.floor_ms(workload))
        })
    }

    /// What a mixed iteration costs at the least: its decode work alone, or its prefill work alone.
    fn floor_ms(&self, workload: &Workload) -> Option<f64> {
        let is_mixed = matches!(
            workload.kind,
            WorkloadKind::ContainsLocallyMixed | WorkloadKind::CrossRankAggregated
        );
        if !is_mixed || !matches!(self.config.fit(), CheckedFit::Adaptive(_)) {
            return None;
        }
        let alone = |kind, features| self.store(kind)?.forecast(features, None).ms;
        let decode_ms = alone(WorkloadKind::PureDecode, &workload.decode);
        let prefill_ms = alone(WorkloadKind::PurePrefill, &workload.prefill);
        decode_ms.into_iter().chain(prefill_ms).reduce(f64::max)
    }

    /// Predicts single-rank iterations given as columns; NaN where the latency is not known.
    ///
    /// # Errors
    /// The first row that is malformed, by its column and index, or an output of another length.
    pub fn predict_batch(&self, columns: &Columns<'_>, predicted_ms: &mut [f64]) -> Result<()> {
        if predicted_ms.len() != columns.len() {
            return Err(Error::metrics(
                "invalid_field",
                "",
                format!("{} rows but room for {}", columns.len(), predicted_ms.len()),
            ));
        }
        for (row, ms) in predicted_ms.iter_mut().enumerate() {
            let predicted = columns.record(row).and_then(|record| self.predict(from_ref(&record)));
            *ms = predicted.map_err(|error| in_row(error, row))?.unwrap_or(f64::NAN);
        }
        Ok(())
    }

    /// The store of a kind of work; `None` for a kind that is not of the worker's role.
    pub fn store(&self, kind: WorkloadKind) -> Option<&Store> {
        self.stores.iter().find(|store| store.kind() == kind)
    }

    /// What was done to its fits so far.
    pub(crate) fn upkeep(&self) -> Upkeep {
        self.stores.iter().map(Store::upkeep).fold(Upkeep::default(), Upkeep::and)
    }

    /// Readiness, counts and the state of each store.
    pub fn diagnostics(&self) -> Diagnostics {
        let stores: Vec<_> = self.stores.iter().map(Store::diagnostics).collect();
        let ready = stores.iter().any(|store| store.ready);
        Diagnostics {
            readiness: if ready { "ready" } else { "insufficient_data" },
            ready,
            accepted_observations: self.counts.accepted,
            retained_observations: stores.iter().map(|store| store.retained_observations).sum(),
            idle_observations: self.counts.idle,
            rejected_observations: Rejection::ALL
                .iter()
                .map(|&reason| (reason.name(), self.counts.rejected[reason as usize]))
                .collect(),
            stores,
        }
    }
}
