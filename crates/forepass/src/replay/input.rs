//! One trace of a replay: each worker's contenders, their answers and their errors.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::learner::{Answer, Learner};
use super::recording::{Caps, Point, Recording, Row};
use super::report::InputReport;
use super::run::{Contender, Options, Protocol};
use super::score::Tally;
use super::timeline::{Recorded, SHOWN_INTERVAL};
use crate::error::Result;
use crate::metrics::ForwardPassMetrics;
use crate::progress::Progress;
use crate::trace::{Iteration, TraceFormat, TraceReader, TraceSource};
use crate::workload::{
    FEATURES, FeatureWeights, Rejection, WorkerType, Workload, WorkloadKind, observed_ms,
};

/// Iterations handed to each contender at a time, so that timing them costs next to nothing.
const CHUNK: usize = 256;

/// What one trace came to.
pub(super) struct InputOutcome {
    pub(super) report: InputReport,
    /// CSV lines, where predictions are asked for.
    pub(super) predictions: Vec<u8>,
    /// By worker; for each of its timing scopes by contender.
    pub(super) tallies: BTreeMap<String, Vec<Vec<BTreeMap<WorkloadKind, Tally>>>>,
    /// Time of each contender.
    pub(super) spent: Vec<Duration>,
    /// The rows of each worker, where the course of the replay is asked for.
    pub(super) recorded: Vec<Recorded>,
}

/// One worker's learners, and how they do.
///
/// A worker whose records change their timing scope counts as one for each: durations that span
/// different things are not learned together.
struct Worker {
    id: String,
    timing_scope: Option<String>,
    learners: Vec<Learner>,
    accepted: BTreeMap<WorkloadKind, u64>,
    tallies: Vec<BTreeMap<WorkloadKind, Tally>>,
    recording: Option<Box<Recording>>,
}

/// An iteration that counts: with work, and with a latency to learn.
struct Scored {
    /// Its place in the chunk.
    iteration: usize,
    worker: usize,
    kind: WorkloadKind,
    features: [f64; FEATURES],
    observed_ms: f64,
    eligible: bool,
}

/// The state of a trace's replay.
pub(super) struct InputRun<'a> {
    contenders: &'a [Contender],
    options: &'a Options,
    progress: &'a Progress,
    workers: Vec<Worker>,
    /// The worker of the previous iteration, most likely the next one's too.
    current: usize,
    /// Whether the iterations judged before the latest one were just taken back.
    discarded: bool,
    skipped: BTreeMap<&'static str, u64>,
    /// Where each reason to skip came up first.
    first_skipped: Vec<String>,
    spent: Vec<Duration>,
    predictions: Vec<u8>,
}

impl<'a> InputRun<'a> {
    pub(super) fn new(
        contenders: &'a [Contender],
        options: &'a Options,
        progress: &'a Progress,
    ) -> Self {
        Self {
            contenders,
            options,
            progress,
            workers: Vec::new(),
            current: 0,
            discarded: false,
            skipped: BTreeMap::new(),
            first_skipped: Vec::new(),
            spent: vec![Duration::ZERO; contenders.len()],
            predictions: Vec::new(),
        }
    }

    pub(super) fn replay(mut self, source: &TraceSource) -> Result<InputOutcome> {
        let mut reader = TraceReader::open_source(source, &self.options.read)?;
        if self.options.protocol == Protocol::Gym {
            let iterations = in_order_of_time(&mut reader, self.progress)?;
            for chunk in iterations.chunks(CHUNK) {
                self.take(&reader, chunk);
                self.progress.advance(0)?;
            }
            return Ok(self.finish(&reader, source));
        }
        let mut chunk: Vec<Iteration> = Vec::new();
        chunk.resize_with(CHUNK, Iteration::default);
        let mut more = true;
        while more {
            let mut filled = 0;
            while more && filled < CHUNK {
                more = reader.read_watched(&mut chunk[filled], self.progress)?;
                filled += usize::from(more);
            }
            self.take(&reader, &chunk[..filled]);
        }
        Ok(self.finish(&reader, source))
    }

    /// Judges a chunk of iterations, and lets the contenders answer and learn it.
    fn take(&mut self, reader: &TraceReader, chunk: &[Iteration]) {
        let mut scored = Vec::with_capacity(chunk.len());
        for (index, iteration) in chunk.iter().enumerate() {
            let row = self.judge(index, iteration);
            if std::mem::take(&mut self.discarded) {
                scored.clear();
            }
            match row {
                Ok(row) => scored.push(row),
                Err(reason) => self.skip(reason, reader, iteration),
            }
        }
        self.step(reader, chunk, &scored);
    }

    /// Counts an iteration that does not count; the first of each reason with its place.
    fn skip(&mut self, reason: &'static str, reader: &TraceReader, iteration: &Iteration) {
        let count = self.skipped.entry(reason).or_default();
        *count += 1;
        if *count == 1 && reason != "idle" {
            let what = Rejection::explain(reason);
            self.first_skipped.push(format!("{}:{}: {what}", reader.file(), iteration.line));
        }
    }

    /// Whether an iteration counts, or why it does not.
    fn judge(&mut self, index: usize, iteration: &Iteration) -> Result<Scored, &'static str> {
        let ranks = &iteration.ranks;
        let weights = FeatureWeights::default();
        let workload = Workload::of(ranks, WorkerType::Aggregated, &weights)
            .map_err(|error| error.code())?
            .ok_or("idle")?;
        let observed_ms = observed_ms(ranks).map_err(Rejection::name)?;
        let worker = self.worker(iteration).ok_or("no_worker_id")?;
        let accepted = self.workers[worker].accepted.entry(workload.kind).or_default();
        let eligible = *accepted >= self.options.warmup();
        *accepted += 1;
        let kind = match self.options.protocol {
            Protocol::Online => workload.kind,
            Protocol::Gym => kind_of_busiest(ranks).unwrap_or(workload.kind),
        };
        let features = workload.features;
        Ok(Scored { iteration: index, worker, kind, features, observed_ms, eligible })
    }

    /// The place of a worker, entered when first seen.
    ///
    /// A record without an id counts only in a trace that names no worker at all: beside named
    /// ones it is a fault of the producer and not one more worker.
    fn worker(&mut self, iteration: &Iteration) -> Option<usize> {
        let (id, timing_scope) = (iteration.worker_id(), iteration.timing_scope());
        let is_it =
            |worker: &Worker| worker.id == id && worker.timing_scope.as_deref() == timing_scope;
        if self.workers.get(self.current).is_some_and(is_it) {
            return Some(self.current);
        }
        if let Some(known) = self.workers.iter().position(is_it) {
            self.current = known;
            return Some(known);
        }
        let unnamed = self.workers.first().is_some_and(|worker| worker.id.is_empty());
        if id.is_empty() && !self.workers.is_empty() && !unnamed {
            return None;
        }
        if unnamed && !id.is_empty() {
            self.discard_unnamed();
        }
        self.workers.push(Worker {
            id: id.to_owned(),
            timing_scope: timing_scope.map(ToOwned::to_owned),
            learners: self.contenders.iter().map(Contender::learner).collect(),
            accepted: BTreeMap::new(),
            tallies: vec![BTreeMap::new(); self.contenders.len()],
            recording: self.options.timeline.then(|| {
                let fits = self.contenders.len();
                Box::new(Recording::new(fits, Caps::share(1, fits)))
            }),
        });
        self.current = self.workers.len() - 1;
        Some(self.current)
    }

    /// Takes back what was learned and scored without a worker's name, now that there are names.
    fn discard_unnamed(&mut self) {
        let accepted = self.workers.drain(..).flat_map(|worker| worker.accepted.into_values());
        *self.skipped.entry("no_worker_id").or_default() += accepted.sum::<u64>();
        self.predictions.clear();
        self.discarded = true;
    }

    /// Lets each contender answer and learn a chunk, and scores it.
    fn step(&mut self, reader: &TraceReader, chunk: &[Iteration], scored: &[Scored]) {
        let mut answers: Vec<Vec<Answer>> = Vec::with_capacity(self.contenders.len());
        let keep_at_most = self.options.keep_at_most();
        for contender in 0..self.contenders.len() {
            let mut answered = Vec::with_capacity(scored.len());
            let start = Instant::now();
            for row in scored {
                let iteration = &chunk[row.iteration];
                let Worker { learners, recording, .. } = &mut self.workers[row.worker];
                answered.push(learners[contender].step(
                    &iteration.ranks,
                    row.kind,
                    row.observed_ms,
                ));
                if let Some(recording) = recording {
                    recording.watch(contender, iteration.row, learners[contender].upkeep());
                }
            }
            self.spent[contender] += start.elapsed();
            for (row, answer) in scored.iter().zip(&answered) {
                let tally = self.workers[row.worker].tallies[contender]
                    .entry(row.kind)
                    .or_insert_with(|| Tally::new(keep_at_most));
                let intervals = answer.intervals.as_ref();
                tally.add(row.observed_ms, answer.ms, intervals, row.eligible);
            }
            answers.push(answered);
        }
        if self.options.timeline {
            for (index, row) in scored.iter().enumerate() {
                self.record(&chunk[row.iteration], row, |contender| answers[contender][index]);
            }
        }
        if self.options.predictions {
            for (index, row) in scored.iter().enumerate() {
                for (contender, answered) in self.contenders.iter().zip(&answers) {
                    let line = PredictionLine {
                        input: reader.name(),
                        iteration: &chunk[row.iteration],
                        row,
                        fit: contender.name(),
                        answer: answered[index],
                    };
                    line.write(&mut self.predictions);
                }
            }
        }
    }

    /// Takes a row into the recording of its worker.
    fn record(&mut self, iteration: &Iteration, row: &Scored, answer: impl Fn(usize) -> Answer) {
        let Some(recording) = &mut self.workers[row.worker].recording else { return };
        let points = self.contenders.iter().enumerate().map(|(index, contender)| {
            let answer = answer(index);
            let own = contender.own_weights().and_then(|weights| {
                Workload::of(&iteration.ranks, WorkerType::Aggregated, &weights).ok().flatten()
            });
            Point {
                predicted_ms: answer.ms,
                reason: answer.reason,
                interval_ms: answer.intervals.and_then(|known| known[SHOWN_INTERVAL]),
                features: own.map(|workload| workload.features),
            }
        });
        recording.take(Row {
            iteration: iteration.row,
            kind: row.kind,
            observed_ms: row.observed_ms,
            features: row.features,
            eligible: row.eligible,
            points: points.collect(),
        });
    }

    fn finish(self, reader: &TraceReader, source: &TraceSource) -> InputOutcome {
        let summary = reader.summary();
        let mut skipped = self.skipped;
        for (&reason, &count) in &summary.skipped {
            *skipped.entry(reason).or_default() += count;
        }
        let mut faults: Vec<String> = summary.faults.iter().map(ToString::to_string).collect();
        faults.extend(self.first_skipped);
        let mut tallies: BTreeMap<String, Vec<_>> = BTreeMap::new();
        let mut recorded = Vec::new();
        for worker in self.workers {
            if let Some(recording) = worker.recording {
                let (id, scope) = (worker.id.clone(), worker.timing_scope);
                recorded.push(Recorded::new(id, scope, *recording, &worker.learners));
            }
            tallies.entry(worker.id).or_default().push(worker.tallies);
        }
        InputOutcome {
            report: InputReport {
                path: reader.name().to_owned(),
                files: source.files.iter().map(|file| file.display().to_string()).collect(),
                format: reader.format().map(TraceFormat::name),
                rows: summary.rows,
                iterations: summary.iterations,
                skipped,
                faults,
                warnings: summary.warnings.clone(),
            },
            predictions: self.predictions,
            tallies,
            spent: self.spent,
            recorded,
        }
    }
}

/// All iterations of a trace by the time at which they were recorded, if each tells it.
fn in_order_of_time(reader: &mut TraceReader, progress: &Progress) -> Result<Vec<Iteration>> {
    let mut iterations = Vec::new();
    loop {
        let mut iteration = Iteration::default();
        if !reader.read_watched(&mut iteration, progress)? {
            break;
        }
        iterations.push(iteration);
    }
    let times: Option<Vec<f64>> = iterations.iter().map(|iteration| iteration.time_ms).collect();
    if times.is_some() {
        let time = |iteration: &Iteration| iteration.time_ms.unwrap_or(f64::INFINITY);
        iterations.sort_by(|one, other| time(one).total_cmp(&time(other)));
    }
    Ok(iterations)
}

/// The kind of work of the rank with the most to attend to, the first of those that tie.
fn kind_of_busiest(ranks: &[ForwardPassMetrics]) -> Option<WorkloadKind> {
    let weights = FeatureWeights::default();
    let mut busiest: Option<Workload> = None;
    for rank in ranks {
        let workload =
            Workload::of(std::slice::from_ref(rank), WorkerType::Aggregated, &weights).ok()?;
        if let Some(workload) = workload {
            if busiest.is_none_or(|known| workload.features[0] > known.features[0]) {
                busiest = Some(workload);
            }
        }
    }
    busiest.map(|workload| workload.kind)
}

/// One line of the predictions.
struct PredictionLine<'a> {
    input: &'a str,
    iteration: &'a Iteration,
    row: &'a Scored,
    fit: &'a str,
    answer: Answer,
}

impl PredictionLine<'_> {
    fn write(&self, csv: &mut Vec<u8>) {
        let predicted = self.answer.ms.map_or_else(String::new, |ms| ms.to_string());
        let mut line = csv::WriterBuilder::new().from_writer(csv);
        // Writing to memory does not fail.
        let _ = line.write_record([
            self.input,
            &self.iteration.row.to_string(),
            self.iteration.worker_id(),
            self.row.kind.name(),
            self.fit,
            &self.row.observed_ms.to_string(),
            &predicted,
            self.answer.source,
            self.answer.reason,
        ]);
        let _ = line.flush();
    }
}
