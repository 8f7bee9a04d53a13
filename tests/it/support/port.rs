//! TCP ports for programs that a test starts with a fixed port.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port that is reserved until this value is dropped: the kernel does not assign it to any other program or
/// outgoing connection. A program that sets `SO_REUSEADDR` can listen on it if it is given the number. Until
/// then, connections are refused.
#[derive(Debug)]
pub struct Port {
    address: SocketAddr,
    /// A bound socket that never listens.
    _socket: Socket,
}

impl Port {
    /// Reserves a port on 127.0.0.1.
    pub fn reserve() -> Self {
        Self::reserve_at(Ipv4Addr::LOCALHOST)
    }

    /// Reserves a port on another address of this machine.
    pub fn reserve_at(address: Ipv4Addr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.set_reuse_address(true).expect("it can be set");
        socket.bind(&SocketAddr::from((address, 0)).into()).expect("a free port");
        let address = socket.local_addr().ok().and_then(|address| address.as_socket()).expect("an address");
        Self { address, _socket: socket }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn number(&self) -> u16 {
        self.address.port()
    }
}
