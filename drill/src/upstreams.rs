//! The scripted upstreams: real sockets on a thread of their own, so that callers do not wait for them.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::Clock;
use mock::{Mock, Running, Scenario};
use tokio::sync::oneshot;

use crate::evidence::Try;
use crate::incident::Incident;

/// Calls that an upstream remembers; more than any incident sends.
const CALLS: usize = 100_000;

/// The upstreams of all incidents; dropping it stops them.
#[derive(Debug)]
pub(crate) struct Upstreams {
    /// For each incident, in its order.
    mocks: Vec<Vec<(SocketAddr, Mock)>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Upstreams {
    /// Starts them all, sound for now.
    pub(crate) fn start(incidents: &[&Incident]) -> io::Result<Self> {
        let counts: Vec<usize> = incidents.iter().map(|incident| incident.upstreams.len()).collect();
        let (tell, told) = sync_channel(1);
        let (stop, stopped) = oneshot::channel();
        let thread =
            std::thread::Builder::new().name("upstreams".to_owned()).spawn(move || serve(&counts, &tell, stopped))?;
        let mocks = told.recv().map_err(|_| io::Error::other("the upstreams do not serve"))??;
        Ok(Self { mocks, stop: Some(stop), thread: Some(thread) })
    }

    /// The ports, for each incident.
    pub(crate) fn ports(&self) -> Vec<Vec<u16>> {
        self.mocks.iter().map(|mocks| mocks.iter().map(|(addr, _)| addr.port()).collect()).collect()
    }

    /// Lets the scenarios begin, all at once.
    pub(crate) fn play(&self, incidents: &[&Incident]) -> io::Result<()> {
        for (incident, mocks) in incidents.iter().zip(&self.mocks) {
            for (upstream, (_, mock)) in incident.upstreams.iter().zip(mocks) {
                let scenario = Scenario::read(upstream.scenario);
                mock.play(scenario.map_err(|error| io::Error::other(format!("{}: {error}", incident.name)))?);
            }
        }
        Ok(())
    }

    /// What callers' calls reached the upstreams of an incident, by their times since `began`; probes are left out.
    pub(crate) fn tries(&self, incident: usize, began: Instant) -> Vec<Try> {
        let mut tries = Vec::new();
        for (upstream, (_, mock)) in self.mocks.get(incident).into_iter().flatten().enumerate() {
            let log = mock.log();
            let start = Clock.now().checked_sub(log.elapsed()).unwrap_or(began);
            let since = |at: Duration| (start + at).saturating_duration_since(began);
            let calls = log.calls().into_iter().filter(|call| call.request.method == "POST");
            tries.extend(calls.map(|call| Try {
                id: call.request.header("x-request-id").unwrap_or_default().to_owned(),
                upstream,
                at: since(call.at),
                began: call.first_byte_at.map(since),
                ended: call.ended_at.map(since),
                is_sound: call.status == 200 && call.first_byte_at.is_some() && call.end != mock::End::Cut,
                is_given_up: call.end == mock::End::Gone,
                rule: call.rule,
                status: call.status,
            }));
        }
        tries.sort_by_key(|one| one.at);
        tries
    }
}

impl Drop for Upstreams {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Started = io::Result<Vec<Vec<(SocketAddr, Mock)>>>;

fn serve(counts: &[usize], tell: &SyncSender<Started>, stopped: oneshot::Receiver<()>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(tell.send(Err(error))),
    };
    runtime.block_on(async {
        let running = match start_all(counts).await {
            Ok(running) => running,
            Err(error) => return drop(tell.send(Err(error))),
        };
        let of_one = |mocks: &Vec<Running>| mocks.iter().map(|one| (one.addr(), one.mock().clone())).collect();
        let _ = tell.send(Ok(running.iter().map(of_one).collect()));
        let _ = stopped.await;
    });
}

async fn start_all(counts: &[usize]) -> io::Result<Vec<Vec<Running>>> {
    let sound = format!("log: {{ calls: {CALLS}, body: 0 }}\ndimensions: 8");
    let sound = Scenario::read(&sound).map_err(|error| io::Error::other(error.to_string()))?;
    let mut all = Vec::new();
    for count in counts {
        let mut running = Vec::new();
        for _ in 0..*count {
            running.push(Mock::start(([127, 0, 0, 1], 0).into(), sound.clone()).await?);
        }
        all.push(running);
    }
    Ok(all)
}
