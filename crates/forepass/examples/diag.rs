//! d
use forepass::config::*;
use forepass::*;
fn main() {
    for p in std::env::args().skip(1) {
        for kind in [std::env::var("FIT").unwrap()] {
            let e = EstimatorConfig::from_json(
                format!("{{\"fpm_regression\":{{\"fit\":{kind}}}}}").as_bytes(),
            )
            .unwrap();
            let c = ForwardPassPerfModelConfig::for_worker(WorkerType::Aggregated, e);
            let mut m = ForwardPassModel::new(c.check().unwrap());
            for it in TraceReader::open(std::path::Path::new(&p), &ReadOptions::default()).unwrap()
            {
                m.observe(&it.unwrap().ranks).unwrap();
            }
            for s in m.diagnostics().stores {
                if s.accepted_observations > 0 {
                    let Some(d) = s.spline else { continue };
                    println!(
                        "{} {:?} n={} searches={} rebuilds={} fallbacks={} lin={:?}",
                        p.rsplit('/').next().unwrap(),
                        s.workload_kind,
                        s.accepted_observations,
                        d.knot_searches,
                        d.numerical_rebuilds,
                        d.batch_fallbacks,
                        s.rebuilds
                    );
                }
            }
        }
    }
}
