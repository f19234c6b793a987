//! Changes that are real are followed; single rows, however far off, change nothing.

use forepass::{ForwardPassModel, WorkloadKind};

use crate::accuracy::PASSED_ON;
use crate::synthetic::{AUTO, Engine, Load, Random, Row, decode_model, follow, line, serving};

/// Dearer requests and cheaper tokens than [`line`].
fn other_prices(load: Load, row: usize) -> f64 {
    let (kv, requests) = load.axes();
    if row < 1000 { line(load, 0) } else { 5.0 + 0.005 * kv + 0.4 * requests }
}

fn slower(load: Load, row: usize) -> f64 {
    line(load, 0) * if row < 1000 { 1.0 } else { 1.8 }
}

fn faster(load: Load, row: usize) -> f64 {
    line(load, 0) * if row < 1000 { 1.0 } else { 0.5 }
}

#[test]
fn a_change_is_followed_after_200_rows() {
    for (name, truth) in [
        ("slower", slower as fn(Load, usize) -> f64),
        ("faster", faster),
        ("other prices", other_prices),
    ] {
        let engine = Engine { name, truth, rows: 2500, ..Engine::PLAIN };
        let rows = engine.run();
        let mut model = decode_model(AUTO);
        for row in &rows[..1200 - 64] {
            model.observe(&[row.load.timed(row.observed_ms)]).unwrap();
        }
        // Of the rows handed over the first 64 are not counted: 200 to 400 after the change.
        let after = follow(model.clone(), &rows[1200 - 64..1400]);
        for row in &rows[1200 - 64..2000 - 64] {
            model.observe(&[row.load.timed(row.observed_ms)]).unwrap();
        }
        let later = follow(model, &rows[2000 - 64..]);
        println!("{name}: {after:?}, later {later:?}");
        for outcome in [after, later] {
            assert!(outcome.truth_error < PASSED_ON * outcome.noise, "{name}: {outcome:?}");
        }
    }
}

fn probes() -> Vec<Load> {
    let mut random = Random(17);
    (0..50).map(|_| serving(&mut random)).collect()
}

#[test]
fn a_spike_moves_nothing() {
    let rows = Engine { name: "spike", rows: 1200, ..Engine::PLAIN }.run();
    let mut model = decode_model(AUTO);
    for row in &rows[..1000] {
        model.observe(&[row.load.timed(row.observed_ms)]).unwrap();
    }
    let mut worst: f64 = 0.0;
    for size in [3.0, 30.0, 1000.0] {
        let (mut calm, mut struck) = (model.clone(), model.clone());
        let spike = rows[1000];
        calm.observe(&[spike.load.timed(spike.truth_ms)]).unwrap();
        struck.observe(&[spike.load.timed(size * spike.truth_ms)]).unwrap();
        for row in &rows[1001..] {
            for load in probes() {
                let [a, b] =
                    [&calm, &struck].map(|model| model.predict(&[load.step()]).unwrap().unwrap());
                worst = worst.max((a / b - 1.0).abs());
            }
            for model in [&mut calm, &mut struck] {
                model.observe(&[row.load.timed(row.observed_ms)]).unwrap();
            }
        }
        let [calm, struck] = [calm, struck].map(|model| follow(model, &rows[1000..]).truth_error);
        println!("spike of {size}: forecasts moved by at most {worst}; errors {calm}, {struck}");
        // By less than one standard deviation of a reading, for a while; and not to the worse.
        assert!(worst < 0.03, "{size}: {worst}");
        assert!(struck < 1.01 * calm, "{size}: {struck}, {calm} without");
    }
}

/// Cells that the rows kept lie in, of a grid of 4 by 4 over their own range of logarithms.
fn occupied_cells(model: &ForwardPassModel) -> usize {
    let retention = model.store(WorkloadKind::PureDecode).unwrap().retention();
    let range = retention.range();
    let mut cells: Vec<[u64; 2]> = retention
        .observations()
        .map(|row| {
            std::array::from_fn(|axis| {
                let [least, greatest] = range[axis].map(f64::ln_1p);
                let share = (row.features[axis].ln_1p() - least) / (greatest - least);
                (4.0 * share).min(3.0) as u64
            })
        })
        .collect();
    cells.sort_unstable();
    cells.dedup();
    cells.len()
}

/// Occupied cells in the mean, while the model learns these rows.
fn mean_cells(model: &mut ForwardPassModel, rows: &[Row]) -> f64 {
    let mut cells = 0;
    for row in rows {
        model.observe(&[row.load.timed(row.observed_ms)]).unwrap();
        cells += occupied_cells(model);
    }
    cells as f64 / rows.len() as f64
}

#[test]
fn one_extreme_row_is_gone_after_its_age() {
    let rows = Engine { name: "extreme", rows: 5500, ..Engine::PLAIN }.run();
    let extreme = Load { requests: 32, kv_tokens: 100_000 * 1_000_000_000 };
    // A mistaken counter of an ordinary step, and a load that took as long as any may; on a store
    // that has just begun, and on one that knows its loads.
    for (before, extreme_ms) in [(3, 12.0), (3, 3.5e6), (1000, 12.0), (1000, 3.5e6)] {
        let mut calm = decode_model(AUTO);
        for row in &rows[..before] {
            calm.observe(&[row.load.timed(row.observed_ms)]).unwrap();
        }
        let mut struck = calm.clone();
        struck.observe(&[extreme.timed(extreme_ms)]).unwrap();
        // The row goes with the 4097th that arrives after it.
        let (meanwhile, afterwards) = rows[before..].split_at(4096);
        let outcome = follow(struck.clone(), meanwhile);
        for row in meanwhile {
            for model in [&mut calm, &mut struck] {
                model.observe(&[row.load.timed(row.observed_ms)]).unwrap();
            }
        }
        assert!(occupied_cells(&struck) < 8, "the extreme row was expected to coarsen the grid");
        // 64 rows enter a grid before it is spanned anew.
        let cells = [&mut calm, &mut struck].map(|model| {
            mean_cells(model, &afterwards[..128]);
            mean_cells(model, &afterwards[128..])
        });
        println!(
            "{extreme_ms} ms after {before} rows: {outcome:?}; cells without, with: {cells:?}"
        );
        assert!(outcome.truth_error < PASSED_ON * outcome.noise, "{outcome:?}");
        assert!(cells[1] > 0.95 * cells[0], "{cells:?}");
    }
}
