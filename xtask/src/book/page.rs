//! A page of the book as HTML.

use crate::documents::beside;

use super::document::Document;
use super::{SUMMARY, is_page};

/// The style of all pages.
pub(super) const STYLE: &str = include_str!("style.css");

/// Returns the path of a document's page in the book.
pub(super) fn html(path: &str) -> String {
    path.strip_suffix(".md").map_or_else(|| path.to_owned(), |path| format!("{path}.html"))
}

/// Returns a page with the summary beside it, and with links to the pages before and after it.
pub(super) fn render(
    path: &str,
    document: &Document,
    summary: &Document,
    neighbours: [Option<&str>; 2],
) -> String {
    let up = "../".repeat(path.matches('/').count());
    let nav = summary.html(|target| format!("{up}{}", html(&beside(SUMMARY, target))));
    let own = format!("<a href=\"{up}{}\"", html(path));
    let nav = nav.replace(&own, &format!("{own} aria-current=\"page\""));
    let body = document.html(|target| to_page(path, target));
    let footer = [("Previous", neighbours[0]), ("Next", neighbours[1])].map(|(name, to)| {
        to.map_or_else(String::new, |to| format!("<a href=\"{up}{}\">{name}</a>\n", html(to)))
    });
    let title = document.title.replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title} - Leasehold</title>\n\
         <link rel=\"stylesheet\" href=\"{up}style.css\">\n\
         <nav>\n{nav}</nav>\n<main>\n{body}<footer>\n{}</footer>\n</main>\n</html>\n",
        footer.concat()
    )
}

/// Returns the first page of the book, which leads to the first document.
pub(super) fn index(order: &[String]) -> String {
    let first = order.first().map(|path| html(path)).unwrap_or_default();
    format!("<!doctype html>\n<meta http-equiv=\"refresh\" content=\"0; url={first}\">\n")
}

/// Returns the target of a link from one page to another page, or to a file.
fn to_page(path: &str, target: &str) -> String {
    let (file, anchor) = target.split_at(target.find('#').unwrap_or(target.len()));
    let is_other_page = !file.is_empty() && is_page(&beside(path, file));
    if is_other_page { format!("{}{anchor}", html(file)) } else { target.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stands_where_its_document_stands() {
        let document = Document::parse("# A <b>\n\n[c](../c.md#d) ![e](e.svg)\n");
        let summary = Document::parse("- [B](a/b.md)\n- [C](c.md)\n");
        let page = render("docs/a/b.md", &document, &summary, [None, Some("docs/c.md")]);
        for part in [
            "<a href=\"../../docs/a/b.html\" aria-current=\"page\">B</a>",
            "<a href=\"../c.html#d\">c</a>",
            "src=\"e.svg\"",
            "<a href=\"../../docs/c.html\">Next</a>",
            "href=\"../../style.css\"",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("Previous"));
    }
}
