//! `mai-gateway mock`: a scripted upstream in a process of its own.

use std::process::ExitCode;

use mock::{Mock, Scenario};

use crate::run::Stop;
use crate::{BAD_CONFIG, CLEAN, complain, files};
use mai::args::MockFlags;

/// Bytes of a scenario at most.
const LARGEST: u64 = 64 << 20;

/// Runs until it is stopped.
pub fn mock(flags: &MockFlags) -> ExitCode {
    let scenario = match flags.scenario.as_ref() {
        None => Scenario::default(),
        Some(path) => {
            let read = |text: String| Scenario::read(&text).map_err(|error| format!("{}: {error}", files::name(path)));
            match files::text(path, LARGEST).and_then(read) {
                Ok(scenario) => scenario,
                Err(error) => {
                    complain(error);
                    return BAD_CONFIG.into();
                }
            }
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(format!("no runtime: {error}"));
            return BAD_CONFIG.into();
        }
    };
    runtime.block_on(async {
        let Some(mut stop) = Stop::watch() else {
            complain("signals cannot be watched for");
            return BAD_CONFIG.into();
        };
        match Mock::start(flags.addr(), scenario).await {
            Ok(running) => {
                complain(format!("mock upstream on {} (OpenAI's paths below /v1; stop it with Ctrl-C)", running.url()));
                stop.asked().await;
                CLEAN.into()
            }
            Err(error) => {
                complain(format!("cannot listen on {}: {error}; name another port with --port", flags.addr()));
                BAD_CONFIG.into()
            }
        }
    })
}
