//! The files of a build that are not pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::header::CONTENT_SECURITY_POLICY;
use http::{HeaderName, HeaderValue};

use super::html_pages::Fragment;
use super::page_headers::html_headers;
use crate::file::{Cache, File, cors_header};
use crate::header_rules::with_headers;
use crate::rules::content_security_policy::file_policy;
use crate::rules::{HeaderRule, RuleList, removes_header};
use crate::site_files::BuildFile;
use frontdesk_publish::is_fingerprinted;
use frontdesk_publish::media_type::{encoded_media_type, folder_of, loader_folders, media_type_of};

/// The files and fragments as they are served, by their decoded paths below the mount: with a content
/// security policy, the headers of rules, the one of [`cors_header`] unless a rule removes it, and the
/// content coding of [`encoded_media_type`]. Caches may keep a file for a year if its name contains a
/// fingerprint.
pub(super) fn serve(
    files: &[BuildFile],
    fragments: &[Fragment<'_>],
    mount: &str,
    rules: &RuleList<HeaderRule>,
) -> BTreeMap<String, Arc<File>> {
    let loaders = loader_folders(files.iter().map(|file| &*file.name));
    let served = |file: &BuildFile, headers: Option<Vec<(HeaderName, HeaderValue)>>| {
        let (name, bytes) = (&*file.name, &file.blob.bytes);
        let encoded = encoded_media_type(name, bytes, loaders.contains(folder_of(name)));
        let media_type = encoded.map_or_else(|| media_type_of(name, bytes), |(media_type, _)| media_type);
        let policy = || (CONTENT_SECURITY_POLICY, HeaderValue::from_static(file_policy(media_type)));
        let mut headers = headers.unwrap_or_else(|| vec![policy()]);
        let path = format!("{mount}{name}");
        headers.extend(cors_header(&path).filter(|(name, _)| !removes_header(rules, &path, name)));
        let cache = if is_fingerprinted(name) { Cache::Immutable } else { Cache::Revalidate };
        let new = File::from_blob(media_type, cache, file.blob.clone());
        let new = with_headers(new, headers, rules, &path);
        let new = encoded.map(|(_, coding)| coding).into_iter().fold(new, File::encoded_as);
        (path, Arc::new(new))
    };
    let fragments =
        fragments.iter().map(|Fragment { file, policy }| served(file, Some(html_headers(policy))));
    files.iter().map(|file| served(file, None)).chain(fragments).collect()
}
