//! Fuzzes the configuration file and an environment variable: errors name existing lines, and the options are
//! valid even if there are errors.

#![no_main]

use std::path::Path;

use frontdesk_config::Config;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    // A last line that begins with `$` sets an environment variable.
    let (text, variable) = input.rsplit_once("\n$").unwrap_or((input, ""));
    let environment = variable.split_once('=').map(|(name, value)| {
        (format!("FRONTDESK_{}", name.to_ascii_uppercase().replace('.', "__")), value.to_owned())
    });
    // The folder does not exist, so all files that the configuration names are missing.
    let (config, faults) = Config::parse(text, Path::new("/nowhere"), environment, &[]);
    for fault in &faults {
        assert!(fault.line.is_none_or(|line| line >= 1 && line <= text.lines().count() + 1), "{fault}");
    }
    assert!(config.web.http.workers >= 1 && config.web.http.max_connections >= 1);
    assert!(config.web.http.timeouts.idle.as_secs() >= 1 && config.web.http.timeouts.header.as_secs() >= 1);
    let config = config.with_base_url(None);
    assert!(config.pages.base_url.starts_with("http"), "{}", config.pages.base_url);
});
