//! Where traces and metrics go.

use crate::Destination;

/// `telemetry`
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// Where traces are posted.
    pub traces: Destination,
    /// Where metrics are posted.
    pub metrics: Destination,
    /// `sample`: the share of traces begun here that are recorded, 0 to 1.
    pub sample: f64,
    /// `compression`: whether what is posted is compressed, by gzip.
    pub gzip: bool,
}
