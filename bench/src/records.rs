//! What request records cost: a gateway that keeps none beside one that keeps them, and one that keeps texts too. All stand side by side, and
//! their samples belong to one round.

use std::io;

use crate::figures::Figures;
use crate::options::Options;
use crate::process::{self, First, Scratch};
use crate::rounds::in_runtime;
use crate::saturate::{Cost, Slices, saturate, side_by_side};
use crate::say;
use crate::target::{self, Target};
use crate::workload::{self, CLIENT_KEY};

/// Connections that saturate.
const CONNECTIONS: usize = 32;

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
            let take = async |at: usize, window| match gateways.get(at) {
                Some(gateway) => saturate(gateway, vec![vec![workload::short_chat().bytes]; CONNECTIONS], window).await,
                None => Ok(Cost::default()),
            };
            let [none, records, texts]: [Cost; KEPT.len()] = side_by_side(round, Slices::LONG, take).await?;
            figures.add("calls/s with request records, over those without", records.rate() / none.rate());
            figures.add("CPU per call with request records, over that without", records.cpu() / none.cpu());
            figures.add("calls/s with texts kept too, over those without records", texts.rate() / none.rate());
            figures.add("CPU per call with texts kept too, over that without records", texts.cpu() / none.cpu());
            let micros = |cost: Cost| cost.cpu() / 1e3;
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
