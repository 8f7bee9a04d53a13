//! Chooses the submissions about which rspamd is asked, and stores its opinions.

use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::Timestamp;

use super::IntakeOptions;
use crate::store::{HoldCause, NewSubmission, OpinionEffect, Store, StoreError};
use crate::submission::first_email;
use frontdesk_forms::FieldValue;
use frontdesk_rspamd::{Content, Opinion, OpinionRequest, Record, RspamdOptions};

/// Collects the submissions of a batch that rspamd will be queried about.
pub(super) struct Opinions<'a> {
    rspamd: Option<&'a RspamdOptions>,
    options: &'a IntakeOptions,
    room: usize,
    latest: i64,
    pub requests: Vec<OpinionRequest>,
}

impl<'a> Opinions<'a> {
    /// `room` is the maximum number of requests, and `latest` the current time by the database's clock, in
    /// milliseconds. Collects nothing if there is no rspamd server or opinions add no points.
    pub fn new(options: &'a IntakeOptions, room: usize, latest: i64) -> Opinions<'a> {
        let rspamd = options.rspamd.as_deref().filter(|_| options.screening.counts_opinions());
        Opinions { rspamd, options, room, latest, requests: Vec::new() }
    }

    /// Adds a new submission if rspamd is to be asked about it, and returns how much later than usual its
    /// deliveries are due, in milliseconds: zero for forms in `confirmed_forms`, and for submissions that it
    /// skips. It skips those that are held (unless only for a confirmation), suspicious or encrypted, and all
    /// beyond `room`. The request has the texts, lists and first e-mail address of the submission, but
    /// neither numbers nor flags.
    pub fn collect(&mut self, new: &NewSubmission<'_>) -> Result<i64, StoreError> {
        let Some(rspamd) = self.rspamd.filter(|_| self.requests.len() < self.room) else { return Ok(0) };
        let is_open = matches!(new.hold, HoldCause::None | HoldCause::Unconfirmed);
        if !is_open || new.verdict.suspicious || new.row.is_sealed {
            return Ok(0);
        }
        let (form, fields) = (new.row.form()?, new.row.fields()?);
        let from = first_email(new.row.definition, &fields);
        let texts = fields.iter().flat_map(|(_, value)| match value {
            FieldValue::Text(text) if Some(text.as_str()) != from => vec![text.clone()],
            FieldValue::List(texts) => texts.clone(),
            _ => Vec::new(),
        });
        let received_at = Timestamp::from_millisecond(new.row.received_at).unwrap_or_default();
        let content = Content {
            form: form.to_owned(),
            from: from.map(str::to_owned),
            texts: texts.collect(),
            received_at,
        };
        // Do not delay submissions to `confirmed_forms`: their visitors are waiting for the delivery.
        let is_awaited = self.options.confirmed_forms.contains(&form);
        let delay =
            if is_awaited { 0 } else { i64::try_from(rspamd.timeout.as_millis()).unwrap_or_default() };
        let usual_due_at = new.due_at(self.latest);
        let due_at = usual_due_at.saturating_add(delay);
        self.requests.push(OpinionRequest { id: new.row.id, content, usual_due_at, due_at });
        Ok(delay)
    }
}

/// Returns the function that stores the result of a request, and ignores one that arrives once the deliveries
/// are due, unless it is spam. If the database fails, the function logs that, and the deliveries are sent
/// when they are due.
pub(super) fn recorder(store: Store, options: Arc<ArcSwap<IntakeOptions>>) -> Record {
    Box::new(move |request: OpinionRequest, opinion: Option<Opinion>| {
        let (store, options) = (store.clone(), options.load_full());
        Box::pin(async move {
            let is_spam = matches!(opinion, Some(Opinion::Spam(_)));
            let is_due = (options.clock)().as_millisecond() >= request.due_at;
            if is_due && !is_spam {
                return;
            }
            let (id, marked_from) = (request.id, options.screening.suspicious_threshold);
            let change =
                store.change(move |tx| tx.record_opinion(&request, opinion.as_ref(), marked_from)).await;
            match change {
                Ok(OpinionEffect { has_deliveries, has_confirmation, .. }) => {
                    if has_deliveries {
                        store.events().queued.notify_one();
                    }
                    if has_confirmation {
                        // Wake the processor, which queues the confirmation email.
                        store.events().accepted.notify_one();
                    }
                }
                Err(StoreError::Closed) => {}
                Err(error) => {
                    tracing::warn!(%id, %error, "could not store rspamd's opinion of a submission; the submission is processed without the opinion");
                }
            }
        })
    })
}
