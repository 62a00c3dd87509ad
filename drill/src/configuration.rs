//! The gateway's configuration: each incident a route with providers of its own, all in one process.

use std::fmt::Write as _;

use crate::incident::{CLIENTS, Incident, key_of};

/// The configuration for these incidents, whose upstreams listen on these ports.
pub(crate) fn configuration(incidents: &[&Incident], upstreams: &[Vec<u16>], (data, admin): (u16, u16)) -> String {
    let mut text = format!(
        "listen: \"127.0.0.1:{data}\"\nadmin: {{ listen: \"127.0.0.1:{admin}\" }}\nshutdown_grace: 3s\nproviders:\n"
    );
    for (incident, ports) in incidents.iter().zip(upstreams) {
        for (upstream, port) in incident.upstreams.iter().zip(ports) {
            let name = format!("{}-{}", incident.name, upstream.name);
            let _ = write!(text, "  - name: {name}\n    base_url: \"http://127.0.0.1:{port}/v1\"\n");
            // Long idle times, so that it is the upstream which ends a connection.
            let _ = writeln!(text, "    pool: {{ idle_timeout: 60s, connect_timeout: 1s }}{}", upstream.provider);
        }
    }
    text.push_str("routes:\n");
    for incident in incidents {
        let _ = write!(
            text,
            "  - name: {}\n    match: {{ path: {} }}\n    upstreams:\n",
            incident.name,
            incident.call.path()
        );
        for upstream in incident.upstreams {
            let (name, tier, weight) = (upstream.name, upstream.tier, upstream.weight);
            let _ = writeln!(
                text,
                "      - {{ provider: {}-{name}, model: mock, tier: {tier}, weight: {weight} }}",
                incident.name
            );
        }
        let _ = writeln!(text, "{}", incident.route.trim_start_matches('\n'));
    }
    text.push_str("clients:\n");
    for (name, options) in CLIENTS {
        let _ = write!(text, "  - name: {name}\n    keys: [\"{}\"]\n    routes: [\"*\"]\n", key_of(name));
        if !options.is_empty() {
            let _ = writeln!(text, "    {options}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidents::ALL;

    #[test]
    fn every_incident_has_a_route_and_its_providers() {
        let incidents: Vec<&Incident> = ALL.iter().collect();
        let ports: Vec<Vec<u16>> = incidents.iter().map(|incident| vec![9; incident.upstreams.len()]).collect();
        let text = configuration(&incidents, &ports, (1, 2));
        for incident in ALL {
            assert!(text.contains(&format!("  - name: {}\n    match:", incident.name)), "{text}");
            for upstream in incident.upstreams {
                let provider = format!("  - name: {}-{}\n    base_url", incident.name, upstream.name);
                assert!(text.contains(&provider), "{text}");
            }
        }
        assert!(text.contains("on_failure: error"));
    }
}
