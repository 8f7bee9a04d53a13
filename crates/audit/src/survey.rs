//! Everything that an audit knows about a site: the exchanges of each group of rules.

pub mod basics;
pub mod caches;
pub mod files;
pub mod first_requests;
pub mod forms;
pub mod links;
pub mod negotiation;

use std::sync::Arc;

use self::basics::BasicsSurvey;
use self::caches::CachesSurvey;
use self::files::FilesSurvey;
use self::first_requests::FirstRequests;
use self::forms::FormsSurvey;
use self::links::LinksSurvey;
use self::negotiation::NegotiationSurvey;
use crate::exchange::Exchange;
use crate::page::Page;

/// All data that the audit collects about a site.
pub struct Survey {
    pub first_requests: FirstRequests,
    pub caches: CachesSurvey,
    pub negotiation: NegotiationSurvey,
    pub links: LinksSurvey,
    pub files: FilesSurvey,
    pub forms: FormsSurvey,
    pub basics: BasicsSurvey,
    /// All exchanges, in the order in which they were completed.
    pub exchanges: Vec<Arc<Exchange>>,
}

impl Survey {
    /// The pages whose HTML is complete, decoded and in a known character encoding, so that rules can
    /// determine what is missing.
    pub fn readable_pages(&self) -> impl Iterator<Item = &Page> {
        self.first_requests.pages.iter().filter(|page| page.response().unreadable().is_none())
    }
}
