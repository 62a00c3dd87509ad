//! What request records cost: a gateway that keeps none beside one that keeps them, and one that keeps texts too. All stand side by side, and
//! their samples belong to one round.

use std::io;
use std::time::Duration;

use crate::figures::Figures;
use crate::options::Options;
use crate::process::{self, First, Scratch};
use crate::rounds::in_runtime;
use crate::saturate::saturate;
use crate::say;
use crate::target::{self, Target};
use crate::workload::{self, CLIENT_KEY};

/// Connections that saturate.
const CONNECTIONS: usize = 32;
/// Length of one sample: several commits of the records' file.
const WINDOW: Duration = Duration::from_secs(3);

/// What is compared with the first, as `records` of each gateway.
const KEPT: [(&str, &str); 3] =
    [("none", "{ keep: 0s }"), ("records", "{ keep: 7d }"), ("texts", "{ keep: 7d, content: true }")];

/// Measures and prints one line for each figure: the median of the rounds, the least and the most.
pub(crate) fn run(options: &Options) -> io::Result<()> {
    in_runtime(async {
        process::raise_open_files()?;
        let _first = if options.polite { None } else { First::come().ok() };
        let scratch = Scratch::make()?;
        let upstream = Target::upstream(scratch.path()).await?;
        let mut gateways = Vec::new();
        for (name, kept) in KEPT {
            let config = |port, admin| config((port, admin, upstream.port), kept);
            gateways.push(Target::gateway(name, config, &upstream, &options.gateway, scratch.path()).await?);
        }
        let mut figures = Figures::default();
        for round in 0..options.rounds {
            let mut costs = [(0.0, 0.0); KEPT.len()];
            // None has the steady advantage of coming first.
            for turn in 0..KEPT.len() {
                let at = (turn + round) % KEPT.len();
                if let (Some(gateway), Some(cost)) = (gateways.get(at), costs.get_mut(at)) {
                    let calls = vec![vec![workload::short_chat().bytes]; CONNECTIONS];
                    *cost = saturate(gateway, calls, WINDOW).await?;
                }
            }
            let [none, records, texts] = costs;
            figures.add("calls/s with request records, over those without", records.0 / none.0);
            figures.add("CPU per call with request records, over that without", records.1 / none.1);
            figures.add("calls/s with texts kept too, over those without records", texts.0 / none.0);
            figures.add("CPU per call with texts kept too, over that without records", texts.1 / none.1);
            let micros = |cost: (f64, f64)| cost.1 / 1e3;
            say(&format!(
                "round {}: CPU per call {:.2} us without, {:.2} us with records, {:.2} us with texts too",
                round + 1,
                micros(none),
                micros(records),
                micros(texts)
            ));
        }
        figures.print()
    })
}

fn config(ports: (u16, u16, u16), records: &str) -> String {
    let begins = target::begins(ports);
    format!(
        r#"{begins}
records: {records}
routes:
  - name: chat
    upstreams: [{{ provider: scripted, model: bench-chat }}]
clients:
  - {{ name: bench, keys: ["{CLIENT_KEY}"], routes: ["*"] }}
"#
    )
}
