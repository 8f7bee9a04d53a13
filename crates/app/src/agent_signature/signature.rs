//! Parses and verifies the signatures of a request (RFC 9421 §3.2).
//!
//! The requirements for signatures of agents are those of draft-ietf-webbotauth-httpsig-protocol-00 §5.2.
//! The functions are pure: the keys and the time are arguments. They use the `sfv` parser and aws-lc, which
//! are dependencies anyway. The existing crates for HTTP signatures would add a second implementation of the
//! algorithms, and lack RSA and ECDSA (`web-bot-auth`) or tags and directories (`httpsig`).

use http::HeaderMap;
use http::request::Parts;
use jiff::Timestamp;
use sfv::{BareItem, Dictionary, InnerList, Item, ListEntry, Parameters, Parser, StringRef};

use super::error::SignatureError;
use super::key::{AgentKey, Algorithm};
use super::replays::SignatureId;
use super::signature_base::{SiteOrigin, combined_value, parse_dictionary, signature_base};

/// The `tag` of signatures that identify agents.
pub const TAG: &str = "web-bot-auth";

/// The maximum validity of a signature, in seconds: a day, as the draft recommends.
pub const LONGEST_VALIDITY: i64 = 24 * 60 * 60;

/// How far an agent's clock may be ahead, in seconds.
pub const CLOCK_SKEW: i64 = 60;

/// The maximum number of agent signatures that are verified per request; further ones are ignored.
const MAX_SIGNATURES: usize = 3;

/// How many leading bytes identify a signature: the first half (r or R) of an ECDSA or Ed25519 signature.
const IDENTIFYING_BYTES: usize = 32;

/// A parsed signature that has not been verified yet.
#[derive(Clone, Debug)]
pub struct Claim {
    pub key_id: String,
    /// The URL in `Signature-Agent`, where the key is published. `None` without the header.
    pub directory: Option<String>,
    pub nonce: Option<String>,
    /// The expiry time, in seconds since 1970.
    pub expires: i64,
    created: i64,
    algorithm: Option<Algorithm>,
    base: Vec<u8>,
    signature: Vec<u8>,
}

/// Parses the first three signatures with the tag [`TAG`]. Each of them can fail independently. Empty without
/// `Signature-Input`; a single error if that header is malformed.
pub fn claims(head: &Parts, origin: &SiteOrigin) -> Vec<Result<Claim, SignatureError>> {
    if !is_signed(&head.headers) {
        return Vec::new();
    }
    let Some(inputs) = parse_dictionary(head, "signature-input") else {
        return vec![Err(SignatureError::Malformed)];
    };
    let signatures = parse_dictionary(head, "signature").unwrap_or_default();
    let tagged = inputs.iter().filter_map(|(label, entry)| match entry {
        ListEntry::InnerList(input) if string_parameter(&input.params, "tag") == Ok(Some(TAG)) => {
            Some(Claim::parse(head, origin, label.as_str(), input, &signatures))
        }
        _ => None,
    });
    tagged.take(MAX_SIGNATURES).collect()
}

/// Whether the request has a signature for any purpose.
pub fn is_signed(headers: &HeaderMap) -> bool {
    headers.contains_key("signature-input")
}

impl Claim {
    /// Parses the signature with this label and computes the bytes that it signs. The signature must have
    /// `keyid`, `created` and `expires`, and cover the host and, if the request has it, `Signature-Agent`.
    fn parse(
        head: &Parts,
        origin: &SiteOrigin,
        label: &str,
        input: &InnerList,
        signatures: &Dictionary,
    ) -> Result<Claim, SignatureError> {
        let Some(ListEntry::Item(Item { bare_item: BareItem::ByteSequence(signature), .. })) =
            signatures.get(label)
        else {
            return Err(SignatureError::Malformed);
        };
        let owned = |name| string_parameter(&input.params, name).map(|text| text.map(str::to_owned));
        let time = |name| input.params.get(name).and_then(BareItem::as_integer).map(i64::from);
        let algorithm = string_parameter(&input.params, "alg")?;
        let algorithm = algorithm.map(|name| Algorithm::from_name(name).ok_or(SignatureError::Algorithm));
        let claim = Claim {
            key_id: owned("keyid")?.ok_or(SignatureError::Malformed)?,
            directory: directory_url(head, label, input)?,
            nonce: owned("nonce")?,
            created: time("created").ok_or(SignatureError::Malformed)?,
            expires: time("expires").ok_or(SignatureError::Malformed)?,
            algorithm: algorithm.transpose()?,
            base: signature_base(head, origin, input)?,
            signature: signature.clone(),
        };
        // A signature that covers no host could be replayed against any site.
        let covers_host = |item: &Item| {
            let name = item.bare_item.as_string().map(StringRef::as_str);
            matches!(name, Some("@authority" | "@target-uri"))
        };
        if input.items.iter().any(covers_host) { Ok(claim) } else { Err(SignatureError::Components) }
    }

    /// Checks that the signature is valid now, and for at most [`LONGEST_VALIDITY`] in total. Its creation
    /// may be [`CLOCK_SKEW`] in the future.
    pub fn check_time(&self, now: Timestamp) -> Result<(), SignatureError> {
        let now = now.as_second();
        if self.created > now.saturating_add(CLOCK_SKEW) {
            Err(SignatureError::Early)
        } else if self.expires <= now {
            Err(SignatureError::Expired)
        } else if self.expires.saturating_sub(self.created) > LONGEST_VALIDITY {
            Err(SignatureError::Long)
        } else {
            Ok(())
        }
    }

    /// Identifies the signature among those of its key: by the nonce, or else by its first bytes, because
    /// anyone can derive the valid ECDSA signature (r, -s) from (r, s).
    pub fn identity(&self) -> SignatureId<'_> {
        match &self.nonce {
            Some(nonce) => SignatureId::Nonce(nonce),
            None => SignatureId::Signature(&self.signature[..self.signature.len().min(IDENTIFYING_BYTES)]),
        }
    }

    /// Verifies the signature with the key that it names, which must be one of `keys` and valid now. Returns
    /// that key. Does not check the signature's own time ([`Self::check_time`]).
    pub fn check_key<'a>(
        &self,
        keys: &'a [AgentKey],
        now: Timestamp,
    ) -> Result<&'a AgentKey, SignatureError> {
        let is_meant = |key: &&AgentKey| key.id() == self.key_id && key.is_valid_at(now);
        let key = keys.iter().find(is_meant).ok_or(SignatureError::Key)?;
        key.verify(self.algorithm, &self.base, &self.signature)?;
        Ok(key)
    }
}

/// A string parameter; `None` if it is absent, an error if it has another type.
fn string_parameter<'a>(parameters: &'a Parameters, name: &str) -> Result<Option<&'a str>, SignatureError> {
    let value = parameters.get(name);
    value.map(|value| value.as_string().map(StringRef::as_str).ok_or(SignatureError::Malformed)).transpose()
}

/// The URL in `Signature-Agent` (a dictionary or, in earlier drafts, a string), which the signature must
/// cover. `None` without that header, as in earlier drafts; an error if it has no URL for this signature.
fn directory_url(head: &Parts, label: &str, input: &InnerList) -> Result<Option<String>, SignatureError> {
    const NAME: &str = "signature-agent";
    let Some(header) = combined_value(head, NAME) else { return Ok(None) };
    let is_covered = |item: &&Item| item.bare_item.as_string().is_some_and(|name| name.as_str() == NAME);
    let covered = input.items.iter().find(is_covered).ok_or(SignatureError::Components)?;
    if let Ok(Item { bare_item: BareItem::String(url), params }) = Parser::new(&header).parse::<Item>() {
        return checked_url(url.as_str(), &params).map(Some);
    }
    let members: Dictionary = Parser::new(&header).parse().map_err(|_| SignatureError::Malformed)?;
    let member = match covered.params.get("key") {
        Some(key) => members.get(key.as_string().ok_or(SignatureError::Components)?.as_str()),
        // Without a `key` parameter, use the member with the signature's label, or else the only member.
        None => members.get(label).or_else(|| members.values().next().filter(|_| members.len() == 1)),
    };
    match member.ok_or(SignatureError::Components)? {
        ListEntry::Item(Item { bare_item: BareItem::String(url), params }) => {
            checked_url(url.as_str(), params).map(Some)
        }
        _ => Err(SignatureError::Malformed),
    }
}

/// Returns the URL of a `Signature-Agent` member if its `type` is `directory` or missing; otherwise an error.
fn checked_url(url: &str, parameters: &Parameters) -> Result<String, SignatureError> {
    let kind = parameters.get("type").map(|kind| match kind {
        BareItem::Token(kind) => kind.as_str(),
        BareItem::String(kind) => kind.as_str(),
        _ => "",
    });
    if kind.is_none_or(|kind| kind == "directory") {
        Ok(url.to_owned())
    } else {
        Err(SignatureError::Directory)
    }
}

#[cfg(test)]
mod tests;
