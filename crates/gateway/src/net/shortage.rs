//! What this process or machine has run out of when no connection can be opened: nothing that the upstream could be
//! blamed for.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use base::{Class, Fault, Kind};
use config::Provider;
use rustix::io::Errno;

/// What there is none left of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shortage {
    /// File descriptors of this process.
    OfProcess,
    /// File descriptors of the machine.
    OfMachine,
    /// Local ports.
    Ports,
    /// Memory of the kernel.
    Memory,
}

impl Shortage {
    /// What an error of the system says to be used up; nothing where it is about something else. `to` is where the
    /// connection was to lead.
    pub fn of(error: &io::Error, to: Option<SocketAddr>) -> Option<Self> {
        match Errno::from_io_error(error)? {
            Errno::MFILE => Some(Self::OfProcess),
            Errno::NFILE => Some(Self::OfMachine),
            Errno::NOMEM | Errno::NOBUFS => Some(Self::Memory),
            Errno::ADDRNOTAVAIL => to.filter(|to| has_a_way(*to)).map(|_| Self::Ports),
            _ => None,
        }
    }

    /// The same of an error of the resolver, which often says no more than that a name is not known now where it could
    /// open nothing to ask with (`getaddrinfo`'s `EAI_AGAIN`): whether anything can be opened is looked at.
    pub fn of_lookup(error: &io::Error) -> Option<Self> {
        let opened = || UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).err();
        Self::of(error, None).or_else(|| Self::of(&opened()?, None))
    }

    /// What to do about it.
    const fn advice(self) -> &'static str {
        match self {
            Self::OfProcess => {
                "the gateway has no file descriptors left for a connection to it: raise the process's limit of open files \
                 (`ulimit -n`, `LimitNOFILE`)"
            }
            Self::OfMachine => {
                "the gateway's machine has no file descriptors left for a connection to it: raise `fs.file-max`, or find \
                 out which process holds them"
            }
            Self::Ports => {
                "the gateway's machine has no local ports left for a connection to it: widen \
                 `net.ipv4.ip_local_port_range`, or raise `pool.idle_timeout` so that connections are used again"
            }
            Self::Memory => {
                "the gateway's machine has no memory left for a connection to it: give it more, or lower \
                 `pool.max_connections`"
            }
        }
    }

    /// The same as a fault of a try.
    pub fn fault(self, provider: &Provider) -> Fault {
        let message = format!("provider `{}` was not asked: {}", provider.name, self.advice());
        Fault { class: Class::Gateway, ..Fault::upstream(Kind::Connect, message) }
    }
}

/// Whether any local address leads there. A machine without IPv6 gives the same error for an address of that kind as
/// one whose ports are used up; those of UDP are others, and connecting one sends nothing.
fn has_a_way(to: SocketAddr) -> bool {
    let from: SocketAddr =
        if to.is_ipv4() { (Ipv4Addr::UNSPECIFIED, 0).into() } else { (Ipv6Addr::UNSPECIFIED, 0).into() };
    UdpSocket::bind(from).and_then(|socket| socket.connect(to)).is_ok()
}

/// No connection to the provider came about, for that reason; the resolver's errors belong here too.
#[must_use]
pub fn unreachable(provider: &Provider, error: &io::Error) -> Fault {
    match Shortage::of(error, None) {
        Some(shortage) => shortage.fault(provider),
        None => {
            Fault::upstream(Kind::Connect, format!("no connection to provider `{}`: {}", provider.name, error.kind()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errno: Errno, to: Option<SocketAddr>) -> Option<Shortage> {
        Shortage::of(&io::Error::from_raw_os_error(errno.raw_os_error()), to)
    }

    #[test]
    fn an_address_that_cannot_be_had_is_a_lack_of_ports_only_where_a_way_leads_there() {
        let here = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        assert_eq!(of(Errno::ADDRNOTAVAIL, Some(here)), Some(Shortage::Ports));
        // A link that no machine has.
        let nowhere = std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 9, 0, u32::MAX);
        assert_eq!(of(Errno::ADDRNOTAVAIL, Some(nowhere.into())), None);
        assert_eq!(of(Errno::ADDRNOTAVAIL, None), None, "nobody was to be connected to");
        assert_eq!(of(Errno::CONNREFUSED, Some(here)), None);
        assert_eq!(of(Errno::HOSTUNREACH, Some(here)), None);
    }
}
