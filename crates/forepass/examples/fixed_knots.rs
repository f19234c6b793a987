//! Fits splines at given knots: reads problems as JSON, writes the prices and the error of each.
//!
//! `cargo run --example fixed_knots -- PROBLEMS.json ANSWERS.json`, where a problem is
//! `{"number", "rows": [[attention, ffn, ms], ...], "scales": [.., ..], "knots": [[..], [..]]}`.

use std::error::Error;
use std::fs;

use forepass::retention::Observation;
use forepass::spline::{Basis, SplineModel};
use serde_json::{Value, json};

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}

fn answer(problem: &Value) -> Option<Value> {
    let rows = problem["rows"].as_array()?.iter().map(|row| {
        let row = numbers(row)?;
        Some(Observation { features: [row[0], row[1]], latency_ms: row[2] })
    });
    let rows: Vec<Observation> = rows.collect::<Option<_>>()?;
    let scales = numbers(&problem["scales"])?;
    let knots = [numbers(&problem["knots"][0])?, numbers(&problem["knots"][1])?];
    let basis = Basis::new([scales[0], scales[1]], [&knots[0], &knots[1]])?;
    let (model, residual) = SplineModel::fit(&basis, &rows)?;
    Some(json!({"number": problem["number"], "slopes": model.prices(), "residual": residual}))
}

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [problems, answers] = paths.as_slice() else {
        return Err("give a file of problems and a file for answers".into());
    };
    let document: Value = serde_json::from_str(&fs::read_to_string(problems)?)?;
    let listed = document["problems"].as_array().ok_or("no list of problems")?;
    let solved: Vec<Value> = listed
        .iter()
        .map(|problem| answer(problem).ok_or_else(|| format!("problem {}", problem["number"])))
        .collect::<Result<_, _>>()?;
    fs::write(answers, json!({"answers": solved}).to_string())?;
    Ok(())
}
