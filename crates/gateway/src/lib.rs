//! The story of one request. Read in this order:
//!
//! | step | what it does |
//! | --- | --- |
//! | [`serve`] | the spine: the only module that knows the steps and their order |
//! | [`worker`] | connections, hyper, one thread each |
//! | [`identify`] | from a key to the client behind it |
//! | [`understand`] | reads the body once; finds the route behind the model name |
//! | [`admit`] | all limits that apply, as one decision; a [`pass`] that gives back |
//! | [`shape`] | what the call may ask for, and how much of its prompt goes out |
//! | [`recall`] | what was answered before, and [`flights`] that may be joined |
//! | [`stake`] | puts aside what the call may use of its client's quota |
//! | [`plan`] | the route's upstreams in order |
//! | [`pursue`] | try, judge, move on; [`attempt`] is one try up to the first content |
//! | [`batch`] | a call with more inputs than an upstream takes, in parts |
//! | [`relay`] | a stream on its way to the caller |
//! | [`mirror`] | copies of calls, whose answers are only recorded |
//! | [`degrade`] | what takes the place of a failure |
//! | [`refuse`] | a refusal as a response |
//! | [`trail`] | what happened, turned into exactly one record |
//! | [`probe`] | asks providers whether they are alive, beside all requests |
//! | [`messenger`] | tells webhooks of events, beside all requests |
//! | [`export`] | sends [`telemetry`] to a collector, beside all requests |
//! | [`live`], [`standing`] | what outlives requests and reloads |
//! | [`levers`], [`drills`] | what operators pull |
//!
//! Around it: [`net`] reaches upstreams, [`caller_io`] watches the caller's socket, [`wire`] moves
//! bodies, [`metrics`] and [`log`] write things down. Steps import those and never each other.

pub mod admit;
pub mod alerts;
pub mod attempt;
pub mod batch;
pub mod books;
pub mod caller_io;
pub mod companies;
pub mod consult;
pub mod contents;
pub mod degrade;
pub mod drills;
pub mod echo;
pub mod explain;
pub mod export;
pub mod flights;
pub mod forms;
pub mod head;
pub mod headers;
pub mod held;
pub mod identify;
pub mod inflate;
pub mod inputs;
pub mod issued;
pub mod kb_versions;
pub mod kept;
pub mod keyring;
pub mod levers;
pub mod live;
pub mod loads;
pub mod lobby;
pub mod log;
pub mod meaning;
pub mod means;
pub mod messenger;
pub mod meters;
pub mod metrics;
pub mod mirror;
pub mod models;
pub mod net;
pub mod nudge;
pub mod outbox;
pub mod pass;
pub mod patience;
pub mod plan;
pub mod probe;
pub mod purges;
pub mod purse;
pub mod pursue;
pub mod raw;
pub mod recall;
pub mod refuse;
pub mod relay;
pub mod ride;
pub mod running;
pub mod seat;
pub mod serve;
pub mod shape;
pub mod sheet;
pub mod slots;
pub mod spelled;
pub mod stake;
pub mod standing;
pub mod telemetry;
pub mod trail;
pub mod trip;
pub mod understand;
pub mod verdicts;
pub mod vocabularies;
pub mod webhooks;
pub mod wire;
pub mod worker;
