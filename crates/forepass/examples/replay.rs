//! Replays the traces named on the command line with each fit and prints how it did.

use forepass::Progress;
use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
use forepass::replay::{Baseline, Contender, Options, replay};
use forepass::trace::find_sources;
use forepass::workload::WorkerType;

fn main() -> Result<(), forepass::Error> {
    let config = |regression: &str| {
        let estimator = format!(r#"{{"fpm_regression": {{"fit": {regression}}}}}"#);
        let estimator = EstimatorConfig::from_json(estimator.as_bytes())?;
        let config = ForwardPassPerfModelConfig::for_worker(WorkerType::Aggregated, estimator);
        config.check().map(Box::new)
    };
    let periodic = r#"{"kind": "spline", "spline": {"search": {"kind": "periodic"}}}"#;
    let contenders = [
        Contender::Model("linear".to_owned(), config(r#"{"kind": "linear"}"#)?),
        Contender::Model("auto".to_owned(), config(r#"{"kind": "auto"}"#)?),
        Contender::Model("spline".to_owned(), config(r#"{"kind": "spline"}"#)?),
        Contender::Model("spline-periodic".to_owned(), config(periodic)?),
        Contender::Baseline(Baseline::Last),
        Contender::Baseline(Baseline::Median),
    ];
    let paths: Vec<_> = std::env::args_os().skip(1).map(Into::into).collect();
    let sources = find_sources(&paths)?;
    let (report, _) = replay(&sources, &contenders, &Options::default(), &Progress::default())?;
    for result in &report.results {
        println!("{}: {:.3} us a row", result.fit, result.cpu_us_per_row.unwrap_or(f64::NAN));
        for (path, stats) in &result.by_input {
            let mape = stats.mape_pct.map_or_else(|| "-".to_owned(), |mape| format!("{mape:.2} %"));
            let coverage = stats.coverage_pct.unwrap_or(0.0);
            println!("{:16} {mape:>12} {coverage:6.1} %  {path}", result.fit);
        }
    }
    Ok(())
}
