//! What runs beside all requests, on the control runtime: nothing that a call waits for.

pub mod probe;
pub mod telemetry_export;
pub mod webhook_delivery;
