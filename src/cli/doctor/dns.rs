//! Asks the name server for text records: as much of DNS (RFC 1035) as a look at SPF, DKIM and DMARC needs.
//!
//! One question at a time, over UDP, and over TCP where the answer does not fit. Nothing is cached.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

/// How long one name server may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many name servers are asked at most, as resolvers do.
const MOST_SERVERS: usize = 3;

/// The name servers to ask.
pub(super) struct Resolver {
    servers: Vec<SocketAddr>,
    /// How long each may take to answer.
    patience: Duration,
}

impl Resolver {
    /// Those that this machine uses, as `/etc/resolv.conf` names them. Nothing where it names none.
    pub(super) fn of_this_machine() -> Option<Resolver> {
        Resolver::parse(&fs::read_to_string("/etc/resolv.conf").ok()?)
    }

    /// This one alone.
    pub(super) fn at(server: SocketAddr) -> Resolver {
        Resolver { servers: vec![server], patience: PATIENCE }
    }

    fn parse(text: &str) -> Option<Resolver> {
        let server = |line: &str| {
            let mut words = line.split_whitespace();
            (words.next()? == "nameserver").then_some(())?;
            Some(SocketAddr::new(words.next()?.parse::<IpAddr>().ok()?, 53))
        };
        let servers: Vec<SocketAddr> = text.lines().filter_map(server).take(MOST_SERVERS).collect();
        (!servers.is_empty()).then_some(Resolver { servers, patience: PATIENCE })
    }

    /// The text records of a name, each with its strings joined. None at all where the name has none or does not exist.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let mut last = "no name server is known".to_owned();
        for server in &self.servers {
            match ask(*server, name, self.patience) {
                Ok(texts) => return Ok(texts),
                Err(error) => last = format!("{}: {error}", server.ip()),
            }
        }
        Err(last)
    }
}

fn ask(server: SocketAddr, name: &str, patience: Duration) -> io::Result<Vec<String>> {
    let id = id();
    let wrong = |_| io::Error::new(io::ErrorKind::InvalidInput, "it is no name that can be asked for");
    let mut query = Packet::new_query(id);
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    let question = Name::new(name).map_err(wrong)?;
    query.questions.push(Question::new(question, QTYPE::TYPE(TYPE::TXT), QCLASS::CLASS(CLASS::IN), false));
    let query = query.build_bytes_vec().map_err(wrong)?;
    match over_udp(server, id, &query, patience)? {
        Some(texts) => Ok(texts),
        None => over_tcp(server, id, &query, patience),
    }
}

/// Nothing where the answer did not fit.
fn over_udp(
    server: SocketAddr,
    id: u16,
    query: &[u8],
    patience: Duration,
) -> io::Result<Option<Vec<String>>> {
    let any: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    // From elsewhere nothing is taken then.
    socket.connect(server)?;
    socket.send(query)?;
    let deadline = Instant::now() + patience;
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
            return if answer.has_flags(PacketFlag::TRUNCATION) {
                Ok(None)
            } else {
                texts(&answer).map(Some)
            };
        }
    }
}

fn over_tcp(server: SocketAddr, id: u16, query: &[u8], patience: Duration) -> io::Result<Vec<String>> {
    let mut stream = TcpStream::connect_timeout(&server, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let length = u16::try_from(query.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stream.write_all(&[&length.to_be_bytes(), query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    let answer = Packet::parse(&answer).map_err(|_| io::ErrorKind::InvalidData)?;
    if answer.id() == id { texts(&answer) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn texts(answer: &Packet<'_>) -> io::Result<Vec<String>> {
    match answer.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Ok(Vec::new()),
        code => return Err(io::Error::other(format!("it answered {code:?}"))),
    }
    let text = |data: &RData<'_>| match data {
        RData::TXT(text) => String::try_from(text.clone()).ok(),
        _ => None,
    };
    Ok(answer.answers.iter().filter_map(|record| text(&record.rdata)).collect())
}

/// A number that nobody guesses, from the system's source of them.
fn id() -> u16 {
    let bytes = uuid::Uuid::now_v7().into_bytes();
    u16::from_be_bytes([bytes[14], bytes[15]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::TXT;

    #[test]
    fn the_machines_name_servers_are_found() {
        let found = |text: &str| Resolver::parse(text).map(|resolver| resolver.servers);
        let file = "# made by hand\nsearch example.com\nnameserver 192.0.2.53\nnameserver\t2001:db8::53\nnameserver x\n";
        let expected: [SocketAddr; 2] =
            ["192.0.2.53:53".parse().unwrap(), "[2001:db8::53]:53".parse().unwrap()];
        assert_eq!(found(file).unwrap(), expected);
        assert_eq!(found("search example.com\n"), None);
    }

    #[test]
    fn records_are_read_whole_whichever_way_they_come() {
        let long = "v=DKIM1; p=".to_owned() + &"A".repeat(400);
        for truncate in [false, true] {
            let resolver = patient(serve(&[&long, "other"], RCODE::NoError, truncate));
            assert_eq!(resolver.texts("s._domainkey.example.com").unwrap(), [long.as_str(), "other"]);
        }
    }

    #[test]
    fn a_name_that_does_not_exist_has_no_records_and_a_server_that_fails_is_an_error() {
        assert_eq!(patient(serve(&[], RCODE::NameError, false)).texts("example.com").unwrap(), [""; 0]);
        let error = patient(serve(&[], RCODE::ServerFailure, false)).texts("example.com").unwrap_err();
        assert!(error.contains("ServerFailure"), "{error}");
        patient(serve(&[], RCODE::NoError, false)).texts(&"x".repeat(64)).unwrap_err();
    }

    /// Machines that run tests are busy.
    fn patient(server: SocketAddr) -> Resolver {
        Resolver { patience: Duration::from_mins(1), ..Resolver::at(server) }
    }

    /// A name server that gives one answer, after one that is not ours; over TCP if it is to be truncated.
    fn serve(texts: &[&str], code: RCODE, truncate: bool) -> SocketAddr {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        // A port that is free for one may be taken for the other.
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
