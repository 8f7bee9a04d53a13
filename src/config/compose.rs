//! Composes the options of each part from the sections of the configuration.

#![expect(clippy::disallowed_methods, reason = "drafts and dates are compared with the current time")]

use std::path::{Path, PathBuf};

use super::reader::FILE_NAME;
use super::sections::Sections;
use frontdesk_app::{self as app, WebOptions};
use frontdesk_desk::DeskOptions;
use frontdesk_http::Options;
use frontdesk_inbox::intake::IntakeOptions;
use frontdesk_inbox::store::{DatabaseUrl, StoreOptions};
use frontdesk_inbox::submission::delivery::Route;
use frontdesk_site::resources::{self, ResourceOptions};
use frontdesk_site::{PagesOptions, PrivatePath, PublicationOptions};

/// Adds the routes of all channels. Without limits, the routes have no quota.
pub(super) fn store_options(sections: &Sections) -> StoreOptions {
    let is_limited = sections.limits.requests.enabled;
    let channels = sections.channels.iter().chain(&sections.visitor_channels).map(|channel| {
        let route = channel.route();
        Route { quota: route.quota.filter(|_| is_limited), ..route }
    });
    StoreOptions { url: sections.store.url.clone(), channels: channels.collect() }
}

/// Adds the options of other sections to those of `[server]`.
pub(super) fn web_options(sections: &Sections, store: &StoreOptions) -> WebOptions {
    let Sections { server, forms, inbox, tls, .. } = sections;
    WebOptions {
        content_security_policy: app::content_security_policy(&sections.allowed),
        http: Options { tls: tls.options.clone(), ..server.web.http.clone() },
        inbox_pages: DeskOptions {
            channels: sections.channels.clone(),
            title: sections.site.title.clone(),
            ..inbox.options.clone()
        },
        forms: forms.posts.clone(),
        confirmed_forms: forms.confirmed.clone(),
        confirm_timeout: forms.confirm_timeout,
        log_requests: sections.logs_requests,
        inbox: store.url.clone(),
        channels: store.channels.iter().map(|channel| channel.name.clone()).collect(),
        ..server.web.clone()
    }
}

/// Combines `[forms]`, `[store]`, `[screening]` and `[limits]`.
pub(super) fn intake_options(sections: &Sections) -> IntakeOptions {
    IntakeOptions {
        duplicate_window: sections.forms.duplicate_window,
        retention: sections.store.maintenance.retention,
        recipient: sections.store.maintenance.recipient.clone(),
        screening: sections.screening.clone(),
        form_quota: sections.limits.requests.form_quota(),
        ..IntakeOptions::default()
    }
}

/// Combines the sections that concern pages. The base URL is empty, because it may depend on the address that
/// the server listens on. Drafts and pages with a date after now are not shown.
pub(super) fn pages_options(sections: &Sections, private: Vec<PrivatePath>) -> PagesOptions {
    let site = &sections.site;
    let now = jiff::Timestamp::now();
    PagesOptions {
        title: site.title.clone(),
        description: site.description.clone(),
        tagline: site.tagline.clone(),
        language: site.language.clone(),
        languages: site.languages.clone(),
        words: sections.words.clone(),
        base_url: String::new(),
        operator: sections.operator.clone(),
        brand: sections.brand.clone(),
        footer: site.footer.clone(),
        home_links: resources::home_links(),
        today: now.to_zoned(jiff::tz::TimeZone::UTC).date(),
        now: Some(now),
        shows_unpublished: false,
        has_reload_script: false,
        allowed: sections.allowed.clone(),
        reserved: resources::reserved_paths(),
        build: site.build.clone(),
        publication: PublicationOptions { private, publish: site.publish.clone() },
        redirects: sections.redirects.clone(),
        search: site.search,
        posts_per_page: site.posts_per_page,
        html_posts: sections.forms.posts.html_posts,
        confirms_waitlist: sections.forms.visitor.confirm.is_some(),
        extra: site.extra.clone(),
    }
}

/// Combines the sections that generated resources, such as agents.md, describe. No quotas if limits are
/// disabled.
pub(super) fn resource_options(sections: &Sections) -> ResourceOptions {
    let limits = &sections.limits.requests;
    ResourceOptions {
        security_email: sections.security_email.clone(),
        signals: sections.signals,
        quotas: limits.enabled.then_some((limits.source.per_minute, limits.source.per_hour)),
        html_posts: sections.forms.posts.html_posts,
        duplicate_window: sections.forms.duplicate_window,
    }
}

/// The operator's private files and folders: the configuration, the site's folder, the cache of certificates
/// in `data_dir`, the files of the inbox `url`, and those that keys name, including the data folder.
pub(super) fn private_files(
    folder: &Path,
    data_dir: &Path,
    url: &DatabaseUrl,
    named: Vec<PrivatePath>,
) -> Vec<PrivatePath> {
    let private = |path: PathBuf, reason: &str, has_companions| PrivatePath {
        path,
        reason: reason.to_owned(),
        has_companions,
    };
    let own = [
        private(folder.join(FILE_NAME), "it is the configuration of this site", false),
        // The site's folder may be inside its build, and the site inside its data folder, so the files in the
        // data folder are listed too.
        private(folder.to_owned(), "it is the folder of this site", false),
        private(data_dir.join("acme"), "it has keys of certificates", false),
    ];
    let database = url.file().map(|file| private(file.to_owned(), "it belongs to the inbox", true));
    let authorities = url.ca_file().map(|file| private(file.to_owned(), "`store.url` names it", false));
    own.into_iter().chain(database).chain(authorities).chain(named).collect()
}
