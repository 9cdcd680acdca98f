//! The laboratory's page: one file that needs no network.
//!
//! `assets/page.html` is built from `page/`, and `assets/lab.wasm.gz` from `crates/lab/web`, both
//! by `cargo xtask page`. They are in the tree so that a build does not need Node. The test step
//! `page` rebuilds the first and compares, and sends the second the same questions as the native
//! code.

mod base64;

/// The page, with a mark at the place of the laboratory.
const PAGE: &str = include_str!("../assets/page.html");

/// The laboratory as WebAssembly, compressed by gzip; the page decompresses it.
const LAB: &[u8] = include_bytes!("../assets/lab.wasm.gz");

/// The mark for the laboratory.
const MARK: &str = "@LAB_WASM@";

/// Returns the whole page, for serving or saving.
#[must_use]
pub fn page() -> String {
    PAGE.replacen(MARK, &base64::standard(LAB), 1)
}

/// Returns the part of a URL that makes the page begin with a model file.
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
