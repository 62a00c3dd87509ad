//! Serves connections: reads a call, notes it, picks its reply, plays it.

use std::sync::{Arc, Mutex, PoisonError};

use base::Clock;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use crate::answer::Asked;
use crate::link::{Conn, Gone, Link, NoRequest};
use crate::log::{Connected, End, Entry, Log};
use crate::playbook::{Pick, Playbook};
use crate::reply::{How, Knobs, Reply};
use crate::request::Request;
use crate::scenario::Scenario;
use crate::take::{Ending, Take, take};

/// A mock that serves whatever connections it is handed.
#[derive(Clone, Debug)]
pub struct Mock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stage: Mutex<Arc<Stage>>,
    /// Told when another scenario is played.
    replaced: Notify,
    log: Log,
}

/// A scenario at work, replaced whole.
#[derive(Debug)]
struct Stage {
    playbook: Playbook,
    slots: Semaphore,
}

impl Stage {
    fn new(scenario: Scenario) -> Self {
        let slots = Semaphore::new(scenario.slots.unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS));
        Self { playbook: Playbook::new(scenario), slots }
    }
}

/// What becomes of the connection.
enum Next {
    Serve,
    Close,
    /// Close, with a body still coming in.
    Linger,
    Reset,
    Drop,
}

impl Mock {
    /// A mock that plays this scenario.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        let (calls, body) = scenario.keep;
        let stage = Mutex::new(Arc::new(Stage::new(scenario)));
        Self(Arc::new(Inner { stage, replaced: Notify::new(), log: Log::new(calls, body) }))
    }

    /// What reached the mock so far.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.0.log
    }

    /// Plays another scenario from the next call on; counts, buckets, dice and times start anew.
    pub fn play(&self, scenario: Scenario) {
        *self.0.stage.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Stage::new(scenario));
        self.0.replaced.notify_waiters();
    }

    /// Ends as soon as connections are refused, or, where `wanted` is false, are taken.
    pub(crate) async fn until_refusing(&self, wanted: bool) {
        loop {
            let replaced = self.0.replaced.notified();
            tokio::pin!(replaced);
            replaced.as_mut().enable();
            let (refuses, turns_in) = self.stage().playbook.refusal(Clock.now());
            if refuses == wanted {
                return;
            }
            match turns_in {
                Some(wait) => drop(tokio::time::timeout(wait, replaced).await),
                None => replaced.await,
            }
        }
    }

    fn stage(&self) -> Arc<Stage> {
        Arc::clone(&self.0.stage.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Serves one connection to its end.
    pub async fn serve(&self, stream: impl Link) {
        let mut connected = self.0.log.connect();
        let mut conn = Conn::new(stream);
        if connected.id <= self.stage().playbook.scenario.connections.reset_first {
            conn.reset();
            return;
        }
        let mut turn = 0;
        loop {
            turn += 1;
            match self.turn(&mut conn, &mut connected, turn).await {
                Next::Serve => {}
                Next::Close => return conn.close().await,
                Next::Linger => return conn.linger().await,
                Next::Reset => return conn.reset(),
                Next::Drop => return,
            }
        }
    }

    async fn turn<S: Link>(&self, conn: &mut Conn<S>, connected: &mut Connected, turn: u64) -> Next {
        let connections = self.stage().playbook.scenario.connections;
        let is_unwanted = turn > 1 && !connections.reuse;
        let end = if connections.how == How::Rst { Next::Reset } else { Next::Close };
        let read = match conn.head(connections.idle, is_unwanted).await {
            Ok(reader) => {
                let stage = self.stage();
                if let Some((head, pick)) =
                    reader.head().and_then(|head| Some((head, stage.playbook.pick_early(head, Clock.now())?)))
                {
                    let head = Arc::new(head.clone());
                    let entry = self.0.log.begin(connected, turn, &head);
                    return match self.answer(conn, &stage, (&head, pick), entry).await {
                        Next::Serve | Next::Close => Next::Linger,
                        next => next,
                    };
                }
                conn.body(reader).await
            }
            Err(no_request) => Err(no_request),
        };
        let request = match read {
            Ok(request) => Arc::new(request),
            Err(NoRequest::Gone) => return Next::Drop,
            Err(NoRequest::Idle | NoRequest::Unwanted) => return end,
            Err(NoRequest::Malformed(why)) => return refuse(conn, why).await,
        };
        // A scenario may have been replaced while the connection was idle.
        let stage = self.stage();
        if stage.playbook.scenario.inspect
            && let Some(what) = request.path.strip_prefix("/__mock/")
        {
            connected.discount();
            return self.inspect(conn, &request, what).await;
        }
        let entry = self.0.log.begin(connected, turn, &request);
        let pick = stage.playbook.pick(&request, entry.in_flight, Clock.now());
        self.answer(conn, &stage, (&request, pick), entry).await
    }

    async fn answer<S: Link>(
        &self,
        conn: &mut Conn<S>,
        stage: &Stage,
        (request, pick): (&Request, Pick),
        entry: Entry,
    ) -> Next {
        let settings = &stage.playbook.scenario.settings;
        let asked = Asked { request, knobs: &pick.reply.knobs, settings, number: entry.number };
        let take = take(&pick.reply, &asked, &stage.playbook.dice);
        entry.answered_by(pick.rule, take.status);
        let slot = tokio::select! {
            biased;
            slot = stage.slots.acquire() => slot,
            () = conn.departure() => return Next::Drop,
        };
        let next = play(conn, &take, entry).await;
        drop(slot);
        next
    }

    /// `GET /__mock/calls`, `POST /__mock/reset`, `PUT /__mock/scenario`.
    async fn inspect<S: Link>(&self, conn: &mut Conn<S>, request: &Request, what: &str) -> Next {
        let reply = match (request.method.as_str(), what) {
            ("GET", "calls") => Reply::json(self.0.log.to_json()),
            ("POST", "reset") => {
                self.0.log.reset();
                Reply::json(json!({"reset": true}))
            }
            ("PUT" | "POST", "scenario") => match Scenario::read(&String::from_utf8_lossy(&request.body)) {
                Ok(scenario) => {
                    self.play(scenario.inspect());
                    Reply::json(json!({"playing": true}))
                }
                Err(error) => {
                    let mut reply = Reply::json(json!({"error": {"message": error.to_string()}}));
                    reply.status = Some(400);
                    reply
                }
            },
            _ => {
                let mut reply = Reply::json(json!({"error": {"message": "GET calls, POST reset, PUT scenario"}}));
                reply.status = Some(404);
                reply
            }
        };
        let stage = self.stage();
        let knobs = Knobs::default();
        let asked = Asked { request, knobs: &knobs, settings: &stage.playbook.scenario.settings, number: 0 };
        let take = take(&reply, &asked, &stage.playbook.dice);
        for (_, bytes) in &take.writes {
            if conn.write(bytes).await.is_err() {
                return Next::Drop;
            }
        }
        if take.ending == Ending::Serve { Next::Serve } else { Next::Close }
    }
}

async fn refuse<S: Link>(conn: &mut Conn<S>, why: &str) -> Next {
    let body = format!("{{\"error\":{{\"message\":\"{why}\",\"type\":\"invalid_request_error\"}}}}");
    let length = body.len();
    let head = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-type: application/json";
    let _ = conn.write(format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes()).await;
    Next::Close
}

/// Plays a take and ends the log's entry.
async fn play<S: Link>(conn: &mut Conn<S>, take: &Take, entry: Entry) -> Next {
    if let Err(Gone) = perform(conn, take, &entry).await {
        entry.end(End::Gone);
        return Next::Drop;
    }
    match take.ending {
        Ending::Serve => {
            entry.end(End::Answered);
            Next::Serve
        }
        Ending::Close => {
            entry.end(End::Answered);
            Next::Close
        }
        Ending::Cut(How::Fin) => {
            entry.end(End::Cut);
            Next::Close
        }
        Ending::Cut(How::Rst) => {
            if !take.writes.is_empty() {
                conn.settle().await;
            }
            entry.end(End::Cut);
            Next::Reset
        }
        Ending::Cut(How::Hang) => {
            conn.departure().await;
            entry.end(End::Gone);
            Next::Drop
        }
    }
}

async fn perform<S: Link>(conn: &mut Conn<S>, take: &Take, entry: &Entry) -> Result<(), Gone> {
    conn.pause(take.latency).await?;
    for (turn, (wait, bytes)) in take.writes.iter().enumerate() {
        conn.pause(*wait).await?;
        conn.write(bytes).await?;
        if turn == 0 {
            entry.begun();
        }
    }
    Ok(())
}
