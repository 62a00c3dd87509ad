//! Who listens to a call and to its answer, where texts are kept.

use std::sync::Arc;

use base::Secret;
use dialect::Ask;
use http::{HeaderMap, Response};

use crate::identify;
use crate::live::Live;
use crate::records::content::{CallContent, Listener};
use crate::reply::Reply;
use crate::running::Running;
use crate::trail::Trail;

/// Listens to a call, where that is asked for.
pub fn begin(live: &Live, running: &Arc<Running>, headers: &HeaderMap, ask: &Ask, trail: &mut Trail) {
    if live.contents.is_on() {
        let shown = identify::presented(headers).filter_map(|key| std::str::from_utf8(key).ok());
        trail.content = Some(live.contents.listen(ask, running, &trail.record, shown.map(Secret::new).collect()));
    }
}

/// Listens to a response on its way to the caller.
pub fn to(response: Response<Reply>, content: Arc<CallContent>) -> Response<Reply> {
    response.map(|reply| match reply {
        Reply::Whole(body) => {
            body.iter().for_each(|body| content.hear_whole(body.clone()));
            Reply::Whole(body)
        }
        reply => Reply::Heard(Box::new(reply), Box::new(Listener::of(content))),
    })
}
