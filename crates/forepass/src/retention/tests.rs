//! Tests of the module above.

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
    let evicted: Vec<_> = (0..6).filter_map(|i| retention.insert(at(f64::from(i), 0.0))).collect();
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
