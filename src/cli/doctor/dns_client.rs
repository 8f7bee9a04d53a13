//! Queries DNS (RFC 1035) for TXT records, which hold SPF, DKIM and DMARC data, for MX records, and for
//! addresses.
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

/// Queries name servers in order until one answers without an error code, or with `NXDOMAIN`.
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
    /// out. Empty if the name does not exist. If every server fails, returns the error of the last one.
    pub(super) fn query_texts(&self, name: &str) -> Result<Vec<String>, String> {
        self.query(name, TYPE::TXT, |data| match data {
            RData::TXT(text) => String::try_from(text.clone()).ok(),
            _ => None,
        })
    }

    /// Returns the mail servers of a domain (MX), the most preferred one first; the name of a null MX record
    /// (RFC 7505) is empty. The list is empty if the domain has no such record or does not exist.
    pub(super) fn query_mail_servers(&self, name: &str) -> Result<Vec<String>, String> {
        let mut found = self.query(name, TYPE::MX, |data| match data {
            RData::MX(server) => Some((server.preference, server.exchange.to_string())),
            _ => None,
        })?;
        found.sort();
        Ok(found.into_iter().map(|(_, server)| server).collect())
    }

    /// Whether a name has an address (A or AAAA). Fails if a query fails before an address is found.
    pub(super) fn has_address(&self, name: &str) -> Result<bool, String> {
        for kind in [TYPE::A, TYPE::AAAA] {
            let found = self.query(name, kind, |data| match data {
                RData::A(_) | RData::AAAA(_) => Some(()),
                _ => None,
            })?;
            if !found.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the records of a name that `read` accepts. Empty if the name does not exist. If a server does
    /// not answer, or answers with an error code, asks the next one; returns the error of the last one.
    fn query<T>(
        &self,
        name: &str,
        kind: TYPE,
        read: impl Fn(&RData<'_>) -> Option<T>,
    ) -> Result<Vec<T>, String> {
        let mut last = "no name server is known".to_owned();
        for server in &self.servers {
            let answer = query_server(*server, name, kind, self.timeout);
            match answer.and_then(|answer| read_records(&answer, &read)) {
                Ok(found) => return Ok(found),
                Err(error) => last = format!("{}: {error}", server.ip()),
            }
        }
        Err(last)
    }
}

/// Queries one server over UDP, and again over TCP if the answer is truncated. Returns the answer's bytes,
/// also if it has an error code. `timeout` limits UDP as a whole, and each read or write over TCP.
fn query_server(server: SocketAddr, name: &str, kind: TYPE, timeout: Duration) -> io::Result<Vec<u8>> {
    // An unpredictable id makes it hard for other hosts to forge an answer.
    let [.., high, low] = uuid::Uuid::now_v7().into_bytes();
    let id = u16::from_be_bytes([high, low]);
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidInput, "this is not a valid domain name");
    let mut query = Packet::new_query(id);
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    let question = Name::new(name).map_err(wrong)?;
    query.questions.push(Question::new(question, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
    let query = query.build_bytes_vec().map_err(wrong)?;
    match query_over_udp(server, id, &query, timeout)? {
        Some(answer) => Ok(answer),
        None => query_over_tcp(server, id, &query, timeout),
    }
}

/// Sends a query over UDP and returns the answer. `None` if the answer was truncated.
/// Ignores datagrams that are not an answer with this id.
fn query_over_udp(
    server: SocketAddr,
    id: u16,
    query: &[u8],
    timeout: Duration,
) -> io::Result<Option<Vec<u8>>> {
    let any: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    // Connect the socket, so that the kernel drops datagrams from other addresses.
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
            return Ok(is_complete.then(|| buffer[..length].to_vec()));
        }
    }
}

/// Sends a query over TCP, with its length in front (RFC 1035 §4.2.2). Fails if the answer has another id.
/// Each step may take up to `timeout`.
fn query_over_tcp(server: SocketAddr, id: u16, query: &[u8], timeout: Duration) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let length = u16::try_from(query.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&length.to_be_bytes(), query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    let parsed = Packet::parse(&answer).map_err(|_| io::ErrorKind::InvalidData)?;
    if parsed.id() == id { Ok(answer) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Extracts the records that `read` accepts. `NXDOMAIN` (the name does not exist) means none; any other error
/// code is an error.
fn read_records<T>(answer: &[u8], read: impl Fn(&RData<'_>) -> Option<T>) -> io::Result<Vec<T>> {
    let answer = Packet::parse(answer).map_err(|_| io::ErrorKind::InvalidData)?;
    match answer.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Ok(Vec::new()),
        code => return Err(io::Error::other(format!("the server returned {code:?}"))),
    }
    Ok(answer.answers.iter().filter_map(|record| read(&record.rdata)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{A, MX, TXT};

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
    fn mail_servers_are_in_the_order_of_their_preference() {
        let record =
            |preference, name: &'static str| RData::MX(MX { preference, exchange: Name::new(name).unwrap() });
        let two = vec![record(20, "b.example.com"), record(10, "a.example.com")];
        let server = patient(serve_records(two, RCODE::NoError, false));
        assert_eq!(server.query_mail_servers("example.com").unwrap(), ["a.example.com", "b.example.com"]);
        let null = patient(serve_records(vec![record(0, "")], RCODE::NoError, false));
        assert_eq!(null.query_mail_servers("example.com").unwrap(), [""]);
        let address =
            patient(serve_records(vec![RData::A(A { address: 0xC000_0201 })], RCODE::NoError, false));
        assert!(address.has_address("example.com").unwrap());
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
        let text = |text: &&str| RData::TXT(TXT::try_from(*text).unwrap().into_owned());
        serve_records(texts.iter().map(text).collect(), code, truncate)
    }

    /// Like [`serve`], for records of any type.
    fn serve_records(records: Vec<RData<'static>>, code: RCODE, truncate: bool) -> SocketAddr {
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
                for data in records.clone() {
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
