//! The laboratory's page: one file that needs no network.
//!
//! `assets/page.html` is built from `page/`, `assets/lab.wasm.gz` from `crates/lab/web`, both by
//! `cargo xtask page`; they are kept in the tree so that nobody needs Node to build this. The test
//! step `page` builds the first anew and compares, and asks the second what it asks the native
//! code.

mod base64;

/// The page with a mark where the laboratory goes.
const PAGE: &str = include_str!("../assets/page.html");

/// The laboratory as WebAssembly, packed by gzip; the page unpacks it.
const LAB: &[u8] = include_bytes!("../assets/lab.wasm.gz");

/// Where the laboratory goes.
const MARK: &str = "@LAB_WASM@";

/// The whole page, to serve or to save.
#[must_use]
pub fn page() -> String {
    PAGE.replacen(MARK, &base64::standard(LAB), 1)
}

/// The part of an address that lets the page begin with a model file.
#[must_use]
pub fn fragment(model: &str) -> String {
    format!("#m={}", base64::for_addresses(model.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_asks_no_network() {
        let page = page();
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        assert!(!page.contains(MARK) && page.contains("H4sI"), "the laboratory is not in it");
        assert!(page.contains("default-src 'none'"));
        for outside in ["src=\"http", "href=\"http", "@import", "url(http"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn a_fragment_is_made_for_addresses() {
        assert_eq!(fragment("{\"a\":\"?>\"}"), "#m=eyJhIjoiPz4ifQ");
    }
}
