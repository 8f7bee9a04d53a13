//! Queries DNS for TXT records (RFC 1035), which hold SPF, DKIM and DMARC data.
//!
//! Sends one query at a time over UDP, and repeats it over TCP if the answer is truncated. Caches nothing.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

/// Maximum time to wait for an answer over UDP, and for each step of a query over TCP.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of name servers to query, as in the C library's resolver.
const MAX_SERVERS: usize = 3;

/// Queries name servers in order until one answers.
pub(super) struct Resolver {
    servers: Vec<SocketAddr>,
    timeout: Duration,
}

impl Resolver {
    /// A resolver for the name servers in `/etc/resolv.conf`; `None` if it is unreadable or lists none.
    pub(super) fn of_this_machine() -> Option<Resolver> {
        Resolver::from_resolv_conf(&fs::read_to_string("/etc/resolv.conf").ok()?)
    }

    /// A resolver for this name server alone.
    pub(super) fn at(server: SocketAddr) -> Resolver {
        Resolver { servers: vec![server], timeout: TIMEOUT }
    }

    /// Takes the first [`MAX_SERVERS`] valid `nameserver` lines, on port 53. `None` if there are none.
    fn from_resolv_conf(text: &str) -> Option<Resolver> {
        let server = |line: &str| {
            let mut words = line.split_whitespace();
            (words.next()? == "nameserver").then_some(())?;
            Some(SocketAddr::new(words.next()?.parse::<IpAddr>().ok()?, 53))
        };
        let servers: Vec<SocketAddr> = text.lines().filter_map(server).take(MAX_SERVERS).collect();
        (!servers.is_empty()).then_some(Resolver { servers, timeout: TIMEOUT })
    }

    /// Returns the TXT records of a name, each with its strings joined; those that are not UTF-8 are left
    /// out. Empty if the name does not exist. If no server answers, fails with the error of the last one.
    pub(super) fn query_texts(&self, name: &str) -> Result<Vec<String>, String> {
        let mut last = "no name server is known".to_owned();
        for server in &self.servers {
            match query_server(*server, name, self.timeout) {
                Ok(texts) => return Ok(texts),
                Err(error) => last = format!("{}: {error}", server.ip()),
            }
        }
        Err(last)
    }
}

/// Queries one server over UDP, and again over TCP if the answer is truncated.
fn query_server(server: SocketAddr, name: &str, timeout: Duration) -> io::Result<Vec<String>> {
    // An unpredictable id makes it hard for other hosts to forge an answer.
    let [.., high, low] = uuid::Uuid::now_v7().into_bytes();
    let id = u16::from_be_bytes([high, low]);
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidInput, "this is not a valid domain name");
    let mut query = Packet::new_query(id);
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    let question = Name::new(name).map_err(wrong)?;
    query.questions.push(Question::new(question, QTYPE::TYPE(TYPE::TXT), QCLASS::CLASS(CLASS::IN), false));
    let query = query.build_bytes_vec().map_err(wrong)?;
    match query_over_udp(server, id, &query, timeout)? {
        Some(texts) => Ok(texts),
        None => query_over_tcp(server, id, &query, timeout),
    }
}

/// Sends a query over UDP and returns the TXT records in the answer. `None` if the answer was truncated.
/// Ignores datagrams that are not an answer with this id.
fn query_over_udp(
    server: SocketAddr,
    id: u16,
    query: &[u8],
    timeout: Duration,
) -> io::Result<Option<Vec<String>>> {
    let any: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    // The kernel then drops datagrams from other addresses.
    socket.connect(server)?;
    socket.send(query)?;
    let deadline = Instant::now() + timeout;
    let mut buffer = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let length = socket.recv(&mut buffer).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
            _ => error,
        })?;
        let Ok(answer) = Packet::parse(&buffer[..length]) else { continue };
        if answer.id() == id && answer.has_flags(PacketFlag::RESPONSE) {
            let is_complete = !answer.has_flags(PacketFlag::TRUNCATION);
            return is_complete.then(|| extract_texts(&answer)).transpose();
        }
    }
}

/// Sends a query over TCP, with its length in front (RFC 1035 §4.2.2). Fails if the answer has another id.
/// Each step may take up to `timeout`.
fn query_over_tcp(server: SocketAddr, id: u16, query: &[u8], timeout: Duration) -> io::Result<Vec<String>> {
    let mut stream = TcpStream::connect_timeout(&server, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let length = u16::try_from(query.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&length.to_be_bytes(), query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    let answer = Packet::parse(&answer).map_err(|_| io::ErrorKind::InvalidData)?;
    if answer.id() == id { extract_texts(&answer) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Extracts the TXT records that are UTF-8. `NXDOMAIN` (the name does not exist) means none; any other error
/// code is an error.
fn extract_texts(answer: &Packet<'_>) -> io::Result<Vec<String>> {
    match answer.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Ok(Vec::new()),
        code => return Err(io::Error::other(format!("the server returned {code:?}"))),
    }
    let text = |data: &RData<'_>| match data {
        RData::TXT(text) => String::try_from(text.clone()).ok(),
        _ => None,
    };
    Ok(answer.answers.iter().filter_map(|record| text(&record.rdata)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::TXT;

    #[test]
    fn the_machines_name_servers_are_read() {
        let found = |text: &str| Resolver::from_resolv_conf(text).map(|resolver| resolver.servers);
        let file = "# made by hand\nsearch example.com\nnameserver 192.0.2.53\nnameserver\t2001:db8::53\nnameserver x\n";
        let expected: [SocketAddr; 2] =
            ["192.0.2.53:53".parse().unwrap(), "[2001:db8::53]:53".parse().unwrap()];
        assert_eq!(found(file).unwrap(), expected);
        assert_eq!(found("search example.com\n"), None);
    }

    #[test]
    fn records_are_complete_over_udp_and_tcp() {
        let long = "v=DKIM1; p=".to_owned() + &"A".repeat(400);
        for truncate in [false, true] {
            let resolver = patient(serve(&[&long, "other"], RCODE::NoError, truncate));
            assert_eq!(resolver.query_texts("s._domainkey.example.com").unwrap(), [long.as_str(), "other"]);
        }
    }

    #[test]
    fn a_missing_name_is_empty_and_a_failing_server_an_error() {
        assert_eq!(patient(serve(&[], RCODE::NameError, false)).query_texts("example.com").unwrap(), [""; 0]);
        let error = patient(serve(&[], RCODE::ServerFailure, false)).query_texts("example.com").unwrap_err();
        assert!(error.contains("ServerFailure"), "{error}");
        patient(serve(&[], RCODE::NoError, false)).query_texts(&"x".repeat(64)).unwrap_err();
    }

    /// Creates a resolver with a longer timeout, because machines that run tests are busy.
    fn patient(server: SocketAddr) -> Resolver {
        Resolver { timeout: Duration::from_mins(1), ..Resolver::at(server) }
    }

    /// Starts a name server that sends an answer with a wrong id and then the real one; if `truncate` is set,
    /// the complete answer is sent over TCP.
    fn serve(texts: &[&str], code: RCODE, truncate: bool) -> SocketAddr {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        // A port may be free for only one of the two protocols.
        let both = || {
            let udp = UdpSocket::bind("127.0.0.1:0").ok()?;
            let tcp = std::net::TcpListener::bind(udp.local_addr().ok()?).ok()?;
            Some((udp, tcp))
        };
        let (udp, tcp) = std::iter::repeat_with(both).flatten().next().unwrap();
        let address = udp.local_addr().unwrap();
        let reply = move |query: &[u8], id_off: u16, truncated: bool| {
            let query = Packet::parse(query).unwrap();
            let mut reply = Packet::new_reply(query.id() ^ id_off);
            *reply.rcode_mut() = code;
            if truncated {
                reply.set_flags(PacketFlag::TRUNCATION);
            } else {
                let name = query.questions[0].qname.clone();
                for text in &texts {
                    let data = RData::TXT(TXT::try_from(text.as_str()).unwrap());
                    reply.answers.push(ResourceRecord::new(name.clone(), CLASS::IN, 60, data));
                }
            }
            reply.build_bytes_vec().unwrap()
        };
        std::thread::spawn(move || {
            let mut buffer = [0; 512];
            let (length, peer) = udp.recv_from(&mut buffer).unwrap();
            udp.send_to(&reply(&buffer[..length], 1, false), peer).unwrap();
            udp.send_to(&reply(&buffer[..length], 0, truncate), peer).unwrap();
            if truncate {
                let (mut stream, _) = tcp.accept().unwrap();
                let length = stream.read(&mut buffer).unwrap();
                let reply = reply(&buffer[2..length], 0, false);
                stream.write_all(&u16::try_from(reply.len()).unwrap().to_be_bytes()).unwrap();
                stream.write_all(&reply).unwrap();
            }
        });
        address
    }
}
