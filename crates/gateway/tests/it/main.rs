//! Stories: the whole gateway but its sockets, on a scripted network and a paused clock.

mod main_job;
mod stage;
