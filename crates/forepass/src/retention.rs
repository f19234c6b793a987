//! Which observations are kept: a bounded sample spread over the load that has been seen.
//!
//! The features' logarithms span a grid whose bounds only widen. When the sample is over its
//! limit, the oldest row of a fullest cell goes; among fullest cells, the one whose oldest row is
//! oldest. Rows of a cell stay in arrival order when the grid widens. The same rows in the same
//! order therefore leave the same sample, always.

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
    slots: Vec<Slot>,
    free: Vec<Link>,
    cells: Vec<Cell>,
    oldest: Link,
    youngest: Link,
    arrivals: u64,
    /// Bounds of the grid: the least and greatest coordinates ever seen.
    grid: [[f64; 2]; FEATURES],
    /// Least and greatest retained feature values, and how many rows have each.
    retained_range: [[f64; 2]; FEATURES],
    at_the_edge: [[usize; 2]; FEATURES],
}

const EMPTY_RANGE: [f64; 2] = [f64::INFINITY, f64::NEG_INFINITY];

/// Room for this many rows is set aside at once; larger samples grow into theirs.
const RESERVED: usize = 1024;

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
            slots: Vec::with_capacity(reserved),
            free: Vec::with_capacity(2),
            cells: Vec::with_capacity(most_cells.min(reserved)),
            oldest: NONE,
            youngest: NONE,
            arrivals: 0,
            grid: [EMPTY_RANGE; FEATURES],
            retained_range: [EMPTY_RANGE; FEATURES],
            at_the_edge: [[0; 2]; FEATURES],
        }
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
        if widen(&mut self.grid, &coordinates) {
            self.refill_cells();
        }
        let arrived = self.append(observation, coordinates);
        self.enter_cell(arrived);
        self.extend_range(&observation.features);
        if self.len() <= self.max_observations {
            return None;
        }
        let evicted = self.evict();
        self.leave_range(&evicted.features);
        Some(evicted)
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
        if let Some(cell) = self.cells.iter_mut().find(|cell| cell.position == position) {
            self.slots[cell.youngest as usize].next_in_cell = at;
            cell.youngest = at;
            cell.rows += 1;
        } else {
            self.cells.push(Cell { position, rows: 1, oldest: at, youngest: at });
        }
    }

    /// Distributes all rows over the cells of the present grid, in arrival order.
    fn refill_cells(&mut self) {
        self.cells.clear();
        let mut at = self.oldest;
        while let Some(newer) = self.slots.get(at as usize).map(|slot| slot.newer) {
            self.enter_cell(at);
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
        let cell = &mut self.cells[victim];
        let at = cell.oldest;
        let slot = &self.slots[at as usize];
        cell.oldest = slot.next_in_cell;
        cell.rows -= 1;
        let (observation, older, newer) = (slot.observation, slot.older, slot.newer);
        if cell.rows == 0 {
            self.cells.swap_remove(victim);
        }
        match self.slots.get_mut(older as usize) {
            Some(before) => before.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(after) => after.older = older,
            None => self.youngest = older,
        }
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(x: f64, y: f64) -> Observation {
        Observation { features: [x, y], latency_ms: 1.0 }
    }

    fn features(retention: &Retention) -> Vec<[f64; 2]> {
        retention.observations().map(|row| row.features).collect()
    }

    #[test]
    fn the_grid_widens_and_takes_its_rows_along() {
        // Specification vector 19: with bounds ln(1 + {0, 1}) the row (1, 1) is in the upper cell;
        // once (15, 15) is in, ln 2 / ln 16 = 1/4 puts it into the lower one.
        let mut retention = Retention::new([2, 2], 64);
        retention.insert(at(0.0, 0.0));
        retention.insert(at(1.0, 1.0));
        let cell = |r: &Retention| r.position(&[1f64.ln_1p(), 1f64.ln_1p()]);
        assert_eq!(cell(&retention), 3, "the upper cell on both axes");
        retention.insert(at(15.0, 15.0));
        assert_eq!(cell(&retention), 0);
    }

    #[test]
    fn the_grid_does_not_shrink_when_its_edge_leaves() {
        // Specification vector 20: four cells; the three large rows share one, whose oldest goes.
        let mut retention = Retention::new([2, 2], 4);
        for (x, y) in [(0.0, 0.0), (1e6, 1e6), (2000.0, 2000.0), (3000.0, 3000.0)] {
            assert_eq!(retention.insert(at(x, y)), None);
        }
        assert_eq!(retention.insert(at(100.0, 0.0)), Some(at(1e6, 1e6)));
        assert_eq!(features(&retention)[0], [0.0, 0.0]);
        assert_eq!(retention.position(&[100f64.ln_1p(), 100f64.ln_1p()]), 0);
    }

    #[test]
    fn the_oldest_of_the_fullest_cell_goes() {
        // As specification vector 21: two rows low, three high; the oldest high one is (10, 10).
        let mut retention = Retention::new([2, 3], 4);
        for (x, y) in [(0.0, 0.0), (10.0, 10.0), (7.0, 7.0), (8.0, 8.0)] {
            retention.insert(at(x, y));
        }
        assert_eq!(retention.insert(at(2.0, 0.0)), Some(at(10.0, 10.0)));
    }

    #[test]
    fn one_cell_is_a_queue() {
        // Specification vector 21, last part: inserts 0..5 at capacity 3 evict 0, 1, 2.
        let mut retention = Retention::new([1, 1], 3);
        let evicted: Vec<_> =
            (0..6).filter_map(|i| retention.insert(at(f64::from(i), 0.0))).collect();
        assert_eq!(evicted, [at(0.0, 0.0), at(1.0, 0.0), at(2.0, 0.0)]);
    }

    #[test]
    fn equally_full_cells_lose_the_oldest_row_of_all() {
        // Two cells of one row each at capacity 1: the older row goes, the new one stays.
        let mut retention = Retention::new([2, 2], 1);
        retention.insert(at(0.0, 0.0));
        assert_eq!(retention.insert(at(9.0, 9.0)), Some(at(0.0, 0.0)));
        // The grid still starts at 0, so (0, 0) has its own cell again; (9, 9) is older.
        assert_eq!(retention.insert(at(0.0, 0.0)), Some(at(9.0, 9.0)));
    }

    #[test]
    fn the_box_follows_what_leaves() {
        // Specification vector 32: 32 rows x = 0..31 in one cell, then 32: 0 has left.
        let mut retention = Retention::new([1, 1], 32);
        for i in 0..33 {
            retention.insert(at(f64::from(i), 0.0));
        }
        assert!(!retention.covers(&[0.0, 0.0]));
        assert_eq!(*retention.range(), [[1.0, 32.0], [0.0, 0.0]]);
    }

    /// The rule in its plainest form: a list in arrival order, cells counted anew each time.
    struct Plain {
        bins: [usize; 2],
        limit: usize,
        rows: Vec<[f64; 2]>,
        grid: [[f64; 2]; 2],
    }

    impl Plain {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        fn insert(&mut self, row: [f64; 2]) -> Option<[f64; 2]> {
            for (range, value) in self.grid.iter_mut().zip(row) {
                *range = [range[0].min(value.ln_1p()), range[1].max(value.ln_1p())];
            }
            self.rows.push(row);
            if self.rows.len() <= self.limit {
                return None;
            }
            let cell = |row: &[f64; 2]| {
                [0, 1].map(|i| {
                    let [low, high] = self.grid[i];
                    let share = (row[i].ln_1p() - low) / (high - low) * self.bins[i] as f64;
                    if high > low { (share.floor() as usize).min(self.bins[i] - 1) } else { 0 }
                })
            };
            let fullness =
                |row: &[f64; 2]| self.rows.iter().filter(|other| cell(other) == cell(row)).count();
            let fullest = self.rows.iter().map(fullness).max()?;
            let victim = self.rows.iter().position(|row| fullness(row) == fullest)?;
            Some(self.rows.remove(victim))
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        #[test]
        fn linked_cells_equal_the_plain_rule(
            rows in prop::collection::vec((0..8u32, 0..8u32, 0..30u8), 1..150),
            bins in (1..5usize, 1..5usize),
            limit in 1..40usize,
        ) {
            let bins = [bins.0, bins.1];
            let mut plain = Plain { bins, limit, rows: Vec::new(), grid: [EMPTY_RANGE; 2] };
            let mut retention = Retention::new(bins, limit);
            for (x, y, glitch) in rows {
                let factor = if glitch == 0 { 1e10 } else { 1.0 };
                let row = [f64::from(x) * factor, f64::from(y * y)];
                let evicted = retention.insert(at(row[0], row[1]));
                prop_assert_eq!(evicted.map(|row| row.features), plain.insert(row));
                prop_assert_eq!(&features(&retention), &plain.rows);
                for i in 0..2 {
                    let values = || plain.rows.iter().map(|row| row[i]);
                    let range = [values().fold(f64::INFINITY, f64::min),
                        values().fold(f64::NEG_INFINITY, f64::max)];
                    prop_assert_eq!(retention.range()[i], range);
                }
            }
        }
    }
}
