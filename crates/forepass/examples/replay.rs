//! Replays the traces named on the command line with the linear fit and prints how it did.

use forepass::Progress;
use forepass::config::{EstimatorConfig, ForwardPassPerfModelConfig};
use forepass::replay::{Baseline, Contender, Options, replay};
use forepass::workload::WorkerType;

fn main() -> Result<(), forepass::Error> {
    let config =
        ForwardPassPerfModelConfig::for_worker(WorkerType::Aggregated, EstimatorConfig::default());
    let contenders = [
        Contender::Model("linear".to_owned(), Box::new(config.check()?)),
        Contender::Baseline(Baseline::Last),
        Contender::Baseline(Baseline::Median),
    ];
    let paths: Vec<_> = std::env::args_os().skip(1).map(Into::into).collect();
    let (report, _) = replay(
        &paths,
        &contenders,
        &Options::default(),
        &Progress::default(),
    )?;
    for result in &report.results {
        for (path, stats) in &result.by_input {
            let mape = stats
                .mape_pct
                .map_or_else(|| "-".to_owned(), |mape| format!("{mape:.2} %"));
            println!("{:8} {mape:>12}  {path}", result.fit);
        }
    }
    Ok(())
}
