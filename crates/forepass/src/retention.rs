//! Which observations are kept: a bounded sample spread over the load that has been seen.
//!
//! The features' logarithms span a grid whose bounds only widen. When the sample is over its
//! limit, the oldest row of a fullest cell goes; among fullest cells, the one whose oldest row is
//! oldest. Rows of a cell stay in arrival order when the grid widens. The same rows in the same
//! order therefore leave the same sample, always.
//!
//! A [`Freshness`] keeps the newest rows out of the grid, lets rows grow only so old, and spans the
//! grid over the rows that are kept, so that one extreme row does not coarsen it for ever.

use crate::workload::FEATURES;

/// One learned iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Its features; finite and nonnegative.
    pub features: [f64; FEATURES],
    /// Its latency in milliseconds; finite and positive.
    pub latency_ms: f64,
}

impl Observation {
    /// The row that fits take: the features, then the latency.
    pub fn row(&self) -> [f64; FEATURES + 1] {
        [self.features[0], self.features[1], self.latency_ms]
    }
}

/// What else than its place in the grid decides whether a row is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Freshness {
    /// The newest rows, kept wherever they lie; fewer than the limit of the sample.
    pub recent: usize,
    /// Rows that may arrive after one before it goes, whatever its cell; at least 1.
    pub max_age: u64,
}

impl Freshness {
    /// The newest `recent` rows always, and none that is older than `max_age` arrivals.
    pub fn new(recent: usize, max_age: u64) -> Self {
        Self { recent, max_age }
    }
}

/// Position of a slot, or of nothing.
type Link = u32;
const NONE: Link = Link::MAX;

#[derive(Debug, Clone, PartialEq)]
struct Slot {
    observation: Observation,
    /// `ln(1 + feature)`, the coordinates of the grid.
    coordinates: [f64; FEATURES],
    /// Arrival number.
    sequence: u64,
    /// Neighbours in arrival order.
    older: Link,
    newer: Link,
    /// The next younger row of the same cell.
    next_in_cell: Link,
}

/// A cell that holds at least one row, as a queue in arrival order.
#[derive(Debug, Clone, PartialEq)]
struct Cell {
    /// Its number in the grid.
    position: usize,
    rows: usize,
    oldest: Link,
    youngest: Link,
}

/// A bounded sample of observations.
#[derive(Debug, Clone, PartialEq)]
pub struct Retention {
    bins_per_axis: [usize; FEATURES],
    max_observations: usize,
    freshness: Option<Freshness>,
    slots: Vec<Slot>,
    free: Vec<Link>,
    cells: Vec<Cell>,
    /// Where in `cells` each cell of a small grid is; empty for a large one, which is searched.
    places: Vec<Link>,
    /// Of a sample that is kept fresh: how many rows are in the grid, those before the newest, the
    /// last of them, and how many have entered since the grid was spanned.
    in_grid: usize,
    last_in_grid: Link,
    since_span: usize,
    oldest: Link,
    youngest: Link,
    arrivals: u64,
    /// Bounds of the grid: the least and greatest coordinates ever seen or, of a sample that is kept
    /// fresh, of what was kept when it was spanned.
    grid: [[f64; 2]; FEATURES],
    /// Least and greatest retained feature values, and how many rows have each.
    retained_range: [[f64; 2]; FEATURES],
    at_the_edge: [[usize; 2]; FEATURES],
}

const EMPTY_RANGE: [f64; 2] = [f64::INFINITY, f64::NEG_INFINITY];

/// Room for this many rows is set aside at once; larger samples grow into theirs.
const RESERVED: usize = 1024;

/// Cells of a grid up to which each has a place of its own.
const SMALL_GRID: usize = 256;

impl Retention {
    /// An empty sample of at most `max_observations` rows over `bins_per_axis` cells (both at
    /// least 1; up to 2^32 - 2 rows).
    pub fn new(bins_per_axis: [usize; FEATURES], max_observations: usize) -> Self {
        let max_observations = max_observations.clamp(1, NONE as usize - 1);
        let bins_per_axis = bins_per_axis.map(|bins| bins.max(1));
        let reserved = (max_observations + 1).min(RESERVED);
        let most_cells =
            bins_per_axis.iter().fold(1, |cells: usize, &bins| cells.saturating_mul(bins));
        Self {
            bins_per_axis,
            max_observations,
            freshness: None,
            slots: Vec::with_capacity(reserved),
            free: Vec::with_capacity(2),
            cells: Vec::with_capacity(most_cells.min(reserved)),
            places: if most_cells <= SMALL_GRID { vec![NONE; most_cells] } else { Vec::new() },
            in_grid: 0,
            last_in_grid: NONE,
            since_span: 0,
            oldest: NONE,
            youngest: NONE,
            arrivals: 0,
            grid: [EMPTY_RANGE; FEATURES],
            retained_range: [EMPTY_RANGE; FEATURES],
            at_the_edge: [[0; 2]; FEATURES],
        }
    }

    /// The same sample, kept fresh; for one that is still empty.
    #[must_use]
    pub fn with_freshness(mut self, freshness: Freshness) -> Self {
        self.freshness = Some(freshness);
        self
    }

    /// Number of rows kept.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Least and greatest retained value of each feature; reversed infinities while empty.
    pub fn range(&self) -> &[[f64; 2]; FEATURES] {
        &self.retained_range
    }

    /// Whether the features lie in the box of the retained ones.
    pub fn covers(&self, features: &[f64; FEATURES]) -> bool {
        features
            .iter()
            .zip(&self.retained_range)
            .all(|(value, [least, greatest])| least <= value && value <= greatest)
    }

    /// The rows kept, in arrival order.
    pub fn observations(&self) -> impl Iterator<Item = &Observation> + Clone {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let slot = self.slots.get(at as usize)?;
            at = slot.newer;
            Some(&slot.observation)
        })
    }

    /// Takes in one row; returns the row that had to go for it, which may be the same one.
    pub fn insert(&mut self, observation: Observation) -> Option<Observation> {
        let coordinates = observation.features.map(f64::ln_1p);
        let evicted = match self.freshness {
            None => {
                if widen(&mut self.grid, &coordinates) {
                    self.refill_cells(self.len());
                }
                let arrived = self.append(observation, coordinates);
                self.enter_cell(arrived);
                self.extend_range(&observation.features);
                (self.len() > self.max_observations).then(|| self.evict())
            }
            Some(freshness) => {
                self.append(observation, coordinates);
                self.extend_range(&observation.features);
                self.refresh(freshness)
            }
        };
        if let Some(evicted) = &evicted {
            self.leave_range(&evicted.features);
        }
        evicted
    }

    /// Puts the rows that are no longer among the newest into the grid, and takes one out of it
    /// where a row is too old or the sample is over its limit.
    fn refresh(&mut self, freshness: Freshness) -> Option<Observation> {
        let recent = freshness.recent.min(self.max_observations - 1);
        while self.len() - self.in_grid > recent {
            let at = self.first_outside();
            let slot = self.slots.get(at as usize)?;
            let is_inside =
                |([least, greatest], value): (&[f64; 2], &f64)| least <= value && value <= greatest;
            self.since_span += 1;
            if self.since_span <= self.max_observations
                && self.grid.iter().zip(&slot.coordinates).all(is_inside)
            {
                self.enter_cell(at);
                self.last_in_grid = at;
                self.in_grid += 1;
            } else {
                // Over what is kept now, the newest included: they are the next to enter.
                self.grid = self.retained_range.map(|range| range.map(f64::ln_1p));
                self.since_span = 0;
                self.refill_cells(self.len() - recent);
            }
        }
        let oldest = self.slots.get(self.oldest as usize)?;
        if self.arrivals - 1 - oldest.sequence > freshness.max_age {
            if self.in_grid == 0 {
                self.refill_cells(1);
            }
            let oldest = self.oldest;
            let place = self.cells.iter().position(|cell| cell.oldest == oldest)?;
            return Some(self.take_from(place));
        }
        (self.len() > self.max_observations).then(|| self.evict())
    }

    /// The oldest row that is not in the grid.
    fn first_outside(&self) -> Link {
        match self.slots.get(self.last_in_grid as usize) {
            Some(slot) => slot.newer,
            None => self.oldest,
        }
    }

    /// Takes a row into the range of each feature.
    fn extend_range(&mut self, features: &[f64; FEATURES]) {
        for axis in 0..FEATURES {
            for (edge, beyond) in [f64::lt, f64::gt].into_iter().enumerate() {
                let (value, range) = (features[axis], &mut self.retained_range[axis][edge]);
                if beyond(&value, range) {
                    *range = value;
                    self.at_the_edge[axis][edge] = 0;
                }
                self.at_the_edge[axis][edge] += usize::from(value == *range);
            }
        }
    }

    /// Takes a row out of the range; measures anew where it was the last one at an edge.
    fn leave_range(&mut self, features: &[f64; FEATURES]) {
        let mut edge_is_bare = false;
        for axis in 0..FEATURES {
            for edge in 0..2 {
                if features[axis] == self.retained_range[axis][edge] {
                    self.at_the_edge[axis][edge] -= 1;
                    edge_is_bare |= self.at_the_edge[axis][edge] == 0;
                }
            }
        }
        if edge_is_bare {
            self.retained_range = [EMPTY_RANGE; FEATURES];
            self.at_the_edge = [[0; 2]; FEATURES];
            let mut at = self.oldest;
            while let Some(slot) = self.slots.get(at as usize) {
                let features = slot.observation.features;
                at = slot.newer;
                self.extend_range(&features);
            }
        }
    }

    fn append(&mut self, observation: Observation, coordinates: [f64; FEATURES]) -> Link {
        let slot = Slot {
            observation,
            coordinates,
            sequence: self.arrivals,
            older: self.youngest,
            newer: NONE,
            next_in_cell: NONE,
        };
        self.arrivals += 1;
        let at = if let Some(at) = self.free.pop() {
            self.slots[at as usize] = slot;
            at
        } else {
            self.slots.push(slot);
            link(self.slots.len() - 1)
        };
        match self.slots.get_mut(self.youngest as usize) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
        self.youngest = at;
        at
    }

    /// Puts a row at the young end of its cell.
    fn enter_cell(&mut self, at: Link) {
        let position = self.position(&self.slots[at as usize].coordinates);
        self.slots[at as usize].next_in_cell = NONE;
        let place = match self.places.get(position) {
            Some(&place) => place as usize,
            None => {
                self.cells.iter().position(|cell| cell.position == position).unwrap_or(usize::MAX)
            }
        };
        if let Some(cell) = self.cells.get_mut(place) {
            self.slots[cell.youngest as usize].next_in_cell = at;
            cell.youngest = at;
            cell.rows += 1;
        } else {
            if let Some(place) = self.places.get_mut(position) {
                *place = link(self.cells.len());
            }
            self.cells.push(Cell { position, rows: 1, oldest: at, youngest: at });
        }
    }

    /// Distributes the first `count` rows over the cells of the present grid, in arrival order.
    fn refill_cells(&mut self, count: usize) {
        self.cells.clear();
        self.places.fill(NONE);
        self.last_in_grid = NONE;
        self.in_grid = 0;
        let mut at = self.oldest;
        for _ in 0..count {
            let Some(newer) = self.slots.get(at as usize).map(|slot| slot.newer) else { break };
            self.enter_cell(at);
            self.last_in_grid = at;
            self.in_grid += 1;
            at = newer;
        }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn position(&self, coordinates: &[f64; FEATURES]) -> usize {
        let mut position = 0;
        for axis in 0..FEATURES {
            let ([least, greatest], bins) = (self.grid[axis], self.bins_per_axis[axis]);
            let mut bin = 0;
            if greatest > least {
                let share = (coordinates[axis] - least) / (greatest - least);
                bin = ((share * bins as f64) as usize).min(bins - 1);
            }
            position = position * bins + bin;
        }
        position
    }

    fn evict(&mut self) -> Observation {
        let age = |cell: &Cell| self.slots[cell.oldest as usize].sequence;
        let mut victim = 0;
        for index in 1..self.cells.len() {
            let (best, cell) = (&self.cells[victim], &self.cells[index]);
            if cell.rows > best.rows || (cell.rows == best.rows && age(cell) < age(best)) {
                victim = index;
            }
        }
        self.take_from(victim)
    }

    /// Takes the oldest row out of a cell.
    fn take_from(&mut self, victim: usize) -> Observation {
        let cell = &mut self.cells[victim];
        let at = cell.oldest;
        let slot = &self.slots[at as usize];
        cell.oldest = slot.next_in_cell;
        cell.rows -= 1;
        let (observation, older, newer) = (slot.observation, slot.older, slot.newer);
        if cell.rows == 0 {
            let emptied = self.cells.swap_remove(victim);
            if let Some(place) = self.places.get_mut(emptied.position) {
                *place = NONE;
            }
            let moved = self.cells.get(victim).map(|cell| cell.position);
            if let Some(place) = moved.and_then(|position| self.places.get_mut(position)) {
                *place = link(victim);
            }
        }
        match self.slots.get_mut(older as usize) {
            Some(before) => before.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(after) => after.older = older,
            None => self.youngest = older,
        }
        if self.last_in_grid == at {
            self.last_in_grid = older;
        }
        self.in_grid = self.in_grid.saturating_sub(1);
        self.free.push(at);
        observation
    }
}

/// Widens ranges to include the values; whether any had to be.
fn widen(ranges: &mut [[f64; 2]; FEATURES], values: &[f64; FEATURES]) -> bool {
    let mut widened = false;
    for ([least, greatest], &value) in ranges.iter_mut().zip(values) {
        if value < *least {
            *least = value;
            widened = true;
        }
        if value > *greatest {
            *greatest = value;
            widened = true;
        }
    }
    widened
}

/// An index that fits: `Retention::new` keeps the number of slots below `NONE`.
fn link(index: usize) -> Link {
    Link::try_from(index).unwrap_or(NONE)
}

#[cfg(test)]
mod tests;
