//! A scripted mail server that can misbehave and records everything that it receives.
//!
//! Uses the standard library only, so that unit tests can include the file.

use std::collections::{HashSet, VecDeque};
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// A step of the SMTP dialogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Greeting,
    Ehlo,
    Helo,
    StartTls,
    /// AUTH with any mechanism.
    Auth,
    AuthPlain,
    Mail,
    Rcpt,
    Data,
    /// After the final dot.
    End,
    Quit,
}

/// An action instead of the usual reply.
#[derive(Clone, Debug)]
pub enum Do {
    /// Replies with these lines; the line end is added. A reply of 421 also closes the connection.
    Say(&'static str),
    /// Sends exactly these bytes.
    Raw(&'static [u8]),
    /// Sends no reply and keeps the connection open.
    Nothing,
    /// Closes the connection without a reply.
    Close,
    /// Sends the usual reply after this delay.
    Late(Duration),
    /// Sends one endless line.
    EndlessLine,
    /// Sends a reply with an endless number of lines.
    EndlessLines,
}

/// The deviations of a connection from usual behavior.
#[derive(Clone, Debug, Default)]
pub struct Script {
    unusual: Vec<(At, Do)>,
    offers: Vec<&'static str>,
    refused_name: Option<&'static str>,
    prompts: Option<[&'static str; 2]>,
    greylists: bool,
    refuses: Vec<(&'static str, &'static str)>,
    closes_at_refusals: bool,
    closes_after: Option<usize>,
    leaves_unanswered: Option<usize>,
}

impl Script {
    /// The usual behavior.
    pub fn usual() -> Script {
        Script::default()
    }

    /// The usual behavior except for one step.
    pub fn with(at: At, what: Do) -> Script {
        Script::usual().and(at, what)
    }

    /// Changes another step.
    #[must_use]
    pub fn and(mut self, at: At, what: Do) -> Script {
        self.unusual.push((at, what));
        self
    }

    /// Asks for the name and the password of AUTH LOGIN with these words, which may be Base64. Ignores the
    /// token of AUTH PLAIN, and asks for it with the first of them.
    #[must_use]
    pub fn prompting(mut self, prompts: [&'static str; 2]) -> Script {
        self.prompts = Some(prompts);
        self
    }

    /// Adds a line to the reply to EHLO.
    #[must_use]
    pub fn offering(mut self, line: &'static str) -> Script {
        self.offers.push(line);
        self
    }

    /// Replies 550 to EHLO and HELO with this name.
    #[must_use]
    pub fn refusing_name(mut self, name: &'static str) -> Script {
        self.refused_name = Some(name);
        self
    }

    /// Replies 451 to the first attempt for each pair of sender and recipient.
    #[must_use]
    pub fn greylisting(mut self) -> Script {
        self.greylists = true;
        self
    }

    /// Replies 550 to this recipient.
    #[must_use]
    pub fn refusing(self, recipient: &'static str) -> Script {
        self.answering_recipient(recipient, "550 5.1.1 no such mailbox")
    }

    /// Closes the connection after a reply of [`Script::answering_recipient`]. An empty one is not sent.
    #[must_use]
    pub fn closing_at_refusals(mut self) -> Script {
        self.closes_at_refusals = true;
        self
    }

    /// Sends this reply to RCPT with this recipient.
    #[must_use]
    pub fn answering_recipient(mut self, recipient: &'static str, reply: &'static str) -> Script {
        self.refuses.push((recipient, reply));
        self
    }

    /// Closes the connection without a reply after this many messages.
    #[must_use]
    pub fn closing_after(mut self, messages: usize) -> Script {
        self.closes_after = Some(messages);
        self
    }

    /// Closes the connection without a reply after the final dot of this message, counted from 1.
    #[must_use]
    pub fn leaving_unanswered(mut self, message: usize) -> Script {
        self.leaves_unanswered = Some(message);
        self
    }

    /// Whether this step has the usual reply, possibly delayed.
    fn is_usual(&self, at: At) -> bool {
        matches!(self.at(at), None | Some(Do::Late(_)))
    }

    /// Whether this step has the usual reply, or another one that begins with this code.
    fn takes(&self, at: At, code: &[u8]) -> bool {
        match self.at(at) {
            None | Some(Do::Late(_)) => true,
            Some(Do::Say(line)) => line.as_bytes().starts_with(code),
            Some(Do::Raw(bytes)) => bytes.starts_with(code),
            Some(_) => false,
        }
    }

    fn at(&self, at: At) -> Option<&Do> {
        self.unusual.iter().find_map(|(step, what)| (*step == at).then_some(what))
    }
}

/// A message whose final dot arrived, regardless of the reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The text between the angle brackets.
    pub from: String,
    pub to: Vec<String>,
    /// The message as sent, with leading dots still doubled, up to the line end before the final dot.
    pub raw: Vec<u8>,
    /// Whether the reply to the final dot was the usual one, so that the peer has accepted the message.
    pub is_taken: bool,
}

impl Received {
    /// The message without doubled dots (RFC 5321 §4.5.2).
    pub fn message(&self) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.raw.len());
        for line in self.raw.split_inclusive(|b| *b == b'\n') {
            message.extend_from_slice(line.strip_prefix(b".").unwrap_or(line));
        }
        message
    }
}

/// The events so far.
#[derive(Debug, Default)]
pub struct Record {
    pub connections: usize,
    /// All lines outside messages, without line ends.
    pub commands: Vec<String>,
    pub received: Vec<Received>,
    seen: HashSet<(String, String)>,
}

/// A record that connections share.
pub type Shared = Arc<Mutex<Record>>;

/// A server on a free port, which runs until the process ends.
#[derive(Debug)]
pub struct SmtpPeer {
    pub address: SocketAddr,
    record: Shared,
    scripts: Arc<Mutex<VecDeque<Script>>>,
}

impl SmtpPeer {
    /// Starts a server. Each connection uses the next script, and the last one is repeated.
    pub fn start(scripts: Vec<Script>) -> SmtpPeer {
        let record = Shared::default();
        let scripts = Arc::new(Mutex::new(VecDeque::from(scripts)));
        let (shared, followed) = (Arc::clone(&record), Arc::clone(&scripts));
        let address = serve(move |stream, _| {
            let script = {
                let mut scripts = followed.lock().unwrap_or_else(PoisonError::into_inner);
                if scripts.len() > 1 { scripts.pop_front() } else { scripts.front().cloned() }
            };
            let script = script.unwrap_or_default();
            lock(&shared).connections += 1;
            // Tests break connections on purpose.
            let _ = converse(stream, &script, &shared, true);
        });
        SmtpPeer { address, record, scripts }
    }

    /// Replaces the scripts for new connections.
    pub fn follow(&self, scripts: Vec<Script>) {
        *self.scripts.lock().unwrap_or_else(PoisonError::into_inner) = scripts.into();
    }

    /// The events so far.
    pub fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }
}

/// Listens on a free port of this machine. Calls `handle` in a new thread for each connection, with its
/// number from 0.
pub fn serve(handle: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let handle = Arc::new(handle);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let handle = Arc::clone(&handle);
            thread::spawn(move || handle(stream, number));
        }
    });
    address
}

pub fn lock(record: &Shared) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converses until the client disconnects. Returns the stream after STARTTLS. Sends a greeting only if
/// `greets` is set.
#[expect(clippy::too_many_lines, reason = "one sequence of steps")]
pub fn converse<S: Read + Write>(
    stream: S,
    script: &Script,
    record: &Shared,
    greets: bool,
) -> io::Result<Option<S>> {
    let mut talk = Talk { stream: BufReader::new(stream), script };
    if greets && !talk.answer(At::Greeting, "220 peer.example.com ready")? {
        return Ok(None);
    }
    let mut from = String::new();
    let mut to: Vec<String> = Vec::new();
    let mut carried = 0;
    loop {
        let Some(line) = talk.line()? else { return Ok(None) };
        lock(record).commands.push(line.clone());
        let verb = line.split(' ').next().unwrap_or_default().to_ascii_uppercase();
        let goes_on = match verb.as_str() {
            "EHLO" | "HELO" if script.refused_name.is_some_and(|name| line[4..].trim() == name) => {
                talk.say("550 Bad HELO - Host impersonating domain name")?;
                true
            }
            "EHLO" => {
                let mut lines = vec!["peer.example.com"];
                lines.extend(&script.offers);
                let last = lines.len() - 1;
                let answer: Vec<String> = lines
                    .iter()
                    .enumerate()
                    .map(|(at, line)| format!("250{}{line}", if at == last { ' ' } else { '-' }))
                    .collect();
                talk.answer(At::Ehlo, &answer.join("\r\n"))?
            }
            "HELO" => talk.answer(At::Helo, "250 peer.example.com")?,
            "STARTTLS" => {
                let goes_on = talk.answer(At::StartTls, "220 go ahead")?;
                if goes_on && script.is_usual(At::StartTls) {
                    return Ok(Some(talk.stream.into_inner()));
                }
                goes_on
            }
            "AUTH" => talk.login(&line, record)?,
            "MAIL" => {
                from = between_brackets(&line);
                to.clear();
                talk.answer(At::Mail, "250 2.1.0 fine")?
            }
            "RCPT" => {
                let recipient = between_brackets(&line);
                let is_new = lock(record).seen.insert((from.clone(), recipient.clone()));
                let refusal = script.refuses.iter().find(|(refused, _)| *refused == recipient);
                if let Some((_, reply)) = refusal {
                    if !reply.is_empty() {
                        talk.say(reply)?;
                    }
                    !script.closes_at_refusals
                } else if script.greylists && is_new {
                    talk.say("451 4.7.1 greylisted, come back later")?;
                    true
                } else {
                    to.push(recipient);
                    talk.answer(At::Rcpt, "250 2.1.5 fine")?
                }
            }
            "DATA" => {
                let goes_on = talk.answer(At::Data, "354 go ahead")?;
                if goes_on && script.takes(At::Data, b"354") {
                    let raw = talk.message()?;
                    carried += 1;
                    let is_taken = script.takes(At::End, b"250") && script.leaves_unanswered != Some(carried);
                    lock(record).received.push(Received {
                        from: from.clone(),
                        to: to.clone(),
                        raw,
                        is_taken,
                    });
                    if script.leaves_unanswered == Some(carried) {
                        return Ok(None);
                    }
                    let goes_on = talk.answer(At::End, "250 2.0.0 taken as 4711")?;
                    goes_on && script.closes_after != Some(carried)
                } else {
                    goes_on
                }
            }
            "QUIT" => {
                talk.answer(At::Quit, "221 2.0.0 bye")?;
                false
            }
            "RSET" | "NOOP" => talk.answer(At::Greeting, "250 2.0.0 fine")?,
            _ => {
                talk.say("500 5.5.1 what?")?;
                true
            }
        };
        if !goes_on {
            return Ok(None);
        }
    }
}

struct Talk<'a, S> {
    stream: BufReader<S>,
    script: &'a Script,
}

impl<S: Read + Write> Talk<'_, S> {
    /// Sends the scripted or the usual reply. Returns whether the connection stays open.
    fn answer(&mut self, at: At, usual: &str) -> io::Result<bool> {
        match self.script.at(at) {
            None => self.say(usual)?,
            Some(Do::Say(line)) => {
                self.say(line)?;
                return Ok(!line.starts_with("421"));
            }
            Some(Do::Raw(bytes)) => self.write(bytes)?,
            Some(Do::Nothing) => {}
            Some(Do::Close) => return Ok(false),
            Some(Do::Late(delay)) => {
                thread::sleep(*delay);
                self.say(usual)?;
            }
            Some(Do::EndlessLine) => {
                self.write(b"250 ")?;
                loop {
                    self.write(&[b'x'; 4096])?;
                }
            }
            Some(Do::EndlessLines) => loop {
                self.write(b"250-and\r\n250-so\r\n250-on\r\n")?;
            },
        }
        Ok(true)
    }

    fn login(&mut self, line: &str, record: &Shared) -> io::Result<bool> {
        if line == "AUTH LOGIN" {
            for question in self.script.prompts.unwrap_or(["VXNlcm5hbWU6", "UGFzc3dvcmQ6"]) {
                self.say(&format!("334 {question}"))?;
                let Some(answer) = self.line()? else { return Ok(false) };
                lock(record).commands.push(answer);
            }
        }
        let prompts = self.script.prompts.or((line == "AUTH PLAIN").then_some(["", ""]));
        if let (Some([prompt, _]), true) = (prompts, line.starts_with("AUTH PLAIN")) {
            self.say(&format!("334 {prompt}"))?;
            let Some(answer) = self.line()? else { return Ok(false) };
            lock(record).commands.push(answer);
        }
        let is_refused = line.starts_with("AUTH PLAIN ") && !self.script.is_usual(At::AuthPlain);
        self.answer(if is_refused { At::AuthPlain } else { At::Auth }, "235 2.7.0 welcome")
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        self.write(format!("{line}\r\n").as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)?;
        self.stream.get_mut().flush()
    }

    /// Reads a line that ends in CRLF, and returns it without the line end. A bare line feed gets no reply.
    fn line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        Ok(line.strip_suffix(b"\r\n").map(|line| String::from_utf8_lossy(line).into_owned()))
    }

    /// Reads everything up to the final dot, which needs CRLF on both sides.
    fn message(&mut self) -> io::Result<Vec<u8>> {
        let mut message = Vec::new();
        while !message.ends_with(b"\r\n.\r\n") && message != b".\r\n" {
            if self.stream.read_until(b'\n', &mut message)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        message.truncate(message.len() - b".\r\n".len());
        Ok(message)
    }
}

fn between_brackets(line: &str) -> String {
    let start = line.find('<').map_or(0, |at| at + 1);
    let end = line.rfind('>').unwrap_or(line.len());
    line.get(start..end).unwrap_or_default().to_owned()
}
