//! What a request's signature claims, and whether it is true (RFC 9421 §3.2, draft-meunier-web-bot-auth-architecture).
//!
//! Pure: a request, keys and the time in, a verdict out. Where the keys come from is not known here.
//!
//! It stands on the parser of structured fields and the verification of aws-lc, which are here anyway. The crates there are would
//! bring Ed25519, ECDSA or RSA and the hashes a second time (`httpsig` a release candidate of RSA), an older parser, and either
//! know no RSA and ECDSA (`web-bot-auth`) or nothing of tags and directories (`httpsig`).

use http::HeaderMap;
use http::request::Parts;
use jiff::Timestamp;
use sfv::{BareItem, Dictionary, InnerList, Item, ListEntry, Parameters, Parser, StringRef};

use super::Why;
use super::component::{Origin, dictionary, joined, signature_base};
use super::key::{Algorithm, Key};
use super::replays::Identity;

/// The tag of signatures by which agents say who they are.
pub const TAG: &str = "web-bot-auth";

/// For how long a signature may be valid, in seconds: a day, as the draft recommends.
pub const LONGEST_VALIDITY: i64 = 24 * 60 * 60;

/// By how many seconds an agent's clock may be ahead of ours.
pub const CLOCK_SKEW: i64 = 60;

/// The most signatures of one request that are looked at.
const MAX_SIGNATURES: usize = 3;

/// How many bytes of a signature identify it: the first of the two numbers of an ECDSA or Ed25519 signature.
const IDENTIFYING_BYTES: usize = 32;

/// What one signature says.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The thumbprint of the key that has signed.
    pub key_id: String,
    /// Where that key is published, as the agent writes it; none if it does not say.
    pub directory: Option<String>,
    /// What makes it different from the agent's other signatures, if it says that.
    pub nonce: Option<String>,
    /// When it expires, in seconds since 1970.
    pub expires: i64,
    created: i64,
    algorithm: Option<Algorithm>,
    base: Vec<u8>,
    signature: Vec<u8>,
}

/// The signatures by which a request's agent says who it is; none if it says nothing.
///
/// # Errors
///
/// Each of them by itself: [`Why::Malformed`], [`Why::Components`] or [`Why::Algorithm`], or [`Why::Directory`] where it is kept
/// in another way than a directory.
pub fn claims(head: &Parts, origin: &Origin) -> Vec<Result<Claim, Why>> {
    if !is_signed(&head.headers) {
        return Vec::new();
    }
    let Some(inputs) = dictionary(head, "signature-input") else { return vec![Err(Why::Malformed)] };
    let signatures = dictionary(head, "signature").unwrap_or_default();
    let is_ours = |entry: &ListEntry| matches!(entry, ListEntry::InnerList(input) if text(&input.params, "tag") == Ok(Some(TAG)));
    inputs
        .iter()
        .filter(|(_, entry)| is_ours(entry))
        .take(MAX_SIGNATURES)
        .map(|(label, entry)| match entry {
            ListEntry::InnerList(input) => Claim::read(head, origin, label.as_str(), input, &signatures),
            ListEntry::Item(_) => Err(Why::Malformed),
        })
        .collect()
}

/// Whether there is a signature at all, for whatever purpose.
pub fn is_signed(headers: &HeaderMap) -> bool {
    headers.contains_key("signature-input")
}

/// The whole judgement of a request whose keys are known: the thumbprint of the one that has signed it.
///
/// # Errors
///
/// Why no signature counts: of several, what is wrong with the first. Nothing where there is none.
pub fn verify<'a>(
    head: &Parts,
    origin: &Origin,
    keys: &'a [Key],
    now: Timestamp,
) -> Result<&'a Key, Option<Why>> {
    let mut why = None;
    for claim in claims(head, origin) {
        match claim.and_then(|claim| claim.check_time(now).and_then(|()| claim.check_key(keys, now))) {
            Ok(key) => return Ok(key),
            Err(reason) => why = why.or(Some(reason)),
        }
    }
    Err(why)
}

impl Claim {
    fn read(
        head: &Parts,
        origin: &Origin,
        label: &str,
        input: &InnerList,
        signatures: &Dictionary,
    ) -> Result<Claim, Why> {
        let Some(ListEntry::Item(Item { bare_item: BareItem::ByteSequence(signature), .. })) =
            signatures.get(label)
        else {
            return Err(Why::Malformed);
        };
        let owned = |name| text(&input.params, name).map(|text| text.map(str::to_owned));
        let time = |name| input.params.get(name).and_then(BareItem::as_integer).map(i64::from);
        let algorithm = match text(&input.params, "alg")? {
            Some(name) => Some(Algorithm::from_name(name).ok_or(Why::Algorithm)?),
            None => None,
        };
        let claim = Claim {
            key_id: owned("keyid")?.ok_or(Why::Malformed)?,
            directory: directory(head, label, input)?,
            nonce: owned("nonce")?,
            created: time("created").ok_or(Why::Malformed)?,
            expires: time("expires").ok_or(Why::Malformed)?,
            algorithm,
            base: signature_base(head, origin, input)?,
            signature: signature.clone(),
        };
        // What is signed for nobody in particular could be sent to everybody.
        let says_to_whom = |item: &Item| {
            let name = item.bare_item.as_string().map(StringRef::as_str);
            matches!(name, Some("@authority" | "@target-uri"))
        };
        if input.items.iter().any(says_to_whom) { Ok(claim) } else { Err(Why::Components) }
    }

    /// Whether it is valid now: made already, not expired, and not for longer than [`LONGEST_VALIDITY`].
    pub fn check_time(&self, now: Timestamp) -> Result<(), Why> {
        let now = now.as_second();
        if self.created > now.saturating_add(CLOCK_SKEW) {
            Err(Why::Early)
        } else if self.expires <= now {
            Err(Why::Expired)
        } else if self.expires.saturating_sub(self.created) > LONGEST_VALIDITY {
            Err(Why::Long)
        } else {
            Ok(())
        }
    }

    /// What tells it from the agent's other signatures: its nonce, or the beginning of the signature where it has none. The end may
    /// differ: from an ECDSA signature (r, s) anyone can make a second valid one, (r, -s).
    pub fn identity(&self) -> Identity<'_> {
        match &self.nonce {
            Some(nonce) => Identity::Nonce(nonce),
            None => Identity::Signature(&self.signature[..self.signature.len().min(IDENTIFYING_BYTES)]),
        }
    }

    /// The key among these that has made it.
    ///
    /// # Errors
    ///
    /// [`Why::Key`], [`Why::Algorithm`] or [`Why::Signature`].
    pub fn check_key<'a>(&self, keys: &'a [Key], now: Timestamp) -> Result<&'a Key, Why> {
        let is_meant = |key: &&Key| key.id() == self.key_id && key.is_valid_at(now);
        let key = keys.iter().find(is_meant).ok_or(Why::Key)?;
        key.verify(self.algorithm, &self.base, &self.signature)?;
        Ok(key)
    }
}

/// A parameter that is a string, if it is there; anything else by that name is at fault.
fn text<'a>(parameters: &'a Parameters, name: &str) -> Result<Option<&'a str>, Why> {
    match parameters.get(name) {
        None => Ok(None),
        Some(value) => value.as_string().map(|text| Some(text.as_str())).ok_or(Why::Malformed),
    }
}

/// Where the agent says that its keys are. `Signature-Agent` is a string in the earlier drafts, a dictionary in the later ones;
/// where it is there, it has to be covered.
fn directory(head: &Parts, label: &str, input: &InnerList) -> Result<Option<String>, Why> {
    const NAME: &str = "signature-agent";
    let Some(header) = joined(head, NAME) else { return Ok(None) };
    let is_covered = |item: &&Item| item.bare_item.as_string().is_some_and(|name| name.as_str() == NAME);
    let covered = input.items.iter().find(is_covered).ok_or(Why::Components)?;
    if let Ok(Item { bare_item: BareItem::String(url), params }) = Parser::new(&header).parse::<Item>() {
        return address(url.as_str(), &params).map(Some);
    }
    let members: Dictionary = Parser::new(&header).parse().map_err(|_| Why::Malformed)?;
    let member = match covered.params.get("key") {
        Some(key) => members.get(key.as_string().ok_or(Why::Components)?.as_str()),
        // All of it is covered: then it is the member of this signature's label, or the only one.
        None => members.get(label).or_else(|| members.values().next().filter(|_| members.len() == 1)),
    };
    match member.ok_or(Why::Components)? {
        ListEntry::Item(Item { bare_item: BareItem::String(url), params }) => {
            address(url.as_str(), params).map(Some)
        }
        _ => Err(Why::Malformed),
    }
}

/// The address, if a directory is there and nothing else.
fn address(url: &str, parameters: &Parameters) -> Result<String, Why> {
    let kind = parameters.get("type").map(|kind| match kind {
        BareItem::Token(kind) => kind.as_str(),
        BareItem::String(kind) => kind.as_str(),
        _ => "",
    });
    if kind.is_none_or(|kind| kind == "directory") { Ok(url.to_owned()) } else { Err(Why::Directory) }
}

#[cfg(test)]
mod tests;
