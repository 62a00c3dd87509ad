//! The story of one request. Read in this order:
//!
//! | step | what it does |
//! | --- | --- |
//! | [`serve`] | the spine: the only module that knows the steps and their order |
//! | [`worker`] | connections, hyper, one thread each |
//! | [`identify`] | from a key to the client behind it |
//! | [`understand`] | reads the body once; finds the route behind the model name |
//! | [`admit`] | all limits that apply, as one decision; a [`permit`] that gives back |
//! | [`shape`] | what the call may ask for, and how much of its prompt goes out |
//! | [`recall`] | what was answered before, and [`cache::flights`] that may be joined |
//! | [`inputs`] | the same for embeddings, input by input |
//! | [`consult`] | behind the exact miss: the same question in other words |
//! | [`stake`] | puts aside what the call may use of its client's quota |
//! | [`plan`] | the route's upstreams in order |
//! | [`pursue`] | try, judge, move on; [`attempt`] is one try up to the first content |
//! | [`batch`] | a call with more inputs than an upstream takes, in parts |
//! | [`relay`] | a stream on its way to the caller |
//! | [`mirror`] | copies of calls, whose answers are only recorded |
//! | [`degrade`] | what takes the place of a failure |
//! | [`refuse`] | a refusal as a response; [`reply`] is the body of any |
//! | [`trail`] | what happened, turned into exactly one record |
//!
//! [`models`] answers `GET /v1/models`; [`explain`] tells the story up to the plan, and sends nothing.
//!
//! What the story is told with, by concern:
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`live`] | what outlives requests and reloads; what each worker has to itself; what operators pull |
//! | [`running`] | a configuration in force, bound to the state that belongs to its objects |
//! | [`caller`] | the caller's socket and headers |
//! | [`bodies`] | bodies, read within bounds and unpacked |
//! | [`limits`] | what has been used of limits, and the batch calls that wait for room |
//! | [`quota`] | quotas, and the ledger of what calls have used |
//! | [`cache`] | stored answers, and answers that several callers wait for |
//! | [`semantic_cache`] | questions that were answered, and verdicts on matches |
//! | [`embeddings`] | vectors, and calls for them that go upstream together |
//! | [`upstream`] | how an upstream stands: breaker, rest, keys, places, drills |
//! | [`net`] | the way to upstreams |
//! | [`records`] | metrics, the access log, traces, texts |
//! | [`alerts`], [`webhooks`] | what operators must hear of, and how it is told |
//! | [`background`] | what runs beside all requests: probes, deliveries, exports |
//!
//! Steps import those. They import each other only where `xtask/src/tidy/steps.rs` names the pair, with its reason.

pub mod admit;
pub mod alerts;
pub mod attempt;
pub mod background;
pub mod batch;
pub mod bodies;
pub mod cache;
pub mod caller;
pub mod consult;
pub mod degrade;
pub mod embeddings;
pub mod explain;
pub mod identify;
pub mod inputs;
pub mod limits;
pub mod live;
pub mod mirror;
pub mod models;
pub mod net;
pub mod permit;
pub mod plan;
pub mod pursue;
pub mod quota;
pub mod recall;
pub mod records;
pub mod refuse;
pub mod relay;
pub mod reply;
pub mod running;
pub mod semantic_cache;
pub mod serve;
pub mod shape;
pub mod stake;
pub mod trail;
pub mod understand;
pub mod upstream;
pub mod webhooks;
pub mod worker;
