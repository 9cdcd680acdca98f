//! The prose of a file: sentences of comments and documents, names of tests, and messages.

/// A piece of prose and the line on which it begins, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) line: usize,
    pub(super) text: String,
}

/// The sentences of the comments of Rust source.
pub(super) fn comments(source: &str) -> Vec<Piece> {
    let comment = |line: &str| {
        let line = line.trim_start();
        let text = ["//!", "///", "//"].into_iter().find_map(|mark| line.strip_prefix(mark))?;
        Some(text.trim().to_owned())
    };
    sentences(blocks(source.lines().map(comment)))
}

/// The sentences of the comments of a protocol description in the language of RFC 4506.
pub(super) fn description(source: &str) -> Vec<Piece> {
    let mut is_inside = false;
    let comment = |line: &str| {
        let start = line.find("/*");
        let text = start.map_or(line, |at| &line[at + 2..]);
        let is_comment = is_inside || start.is_some();
        is_inside = is_comment && !text.contains("*/");
        let text = text.split("*/").next().unwrap_or_default();
        is_comment.then(|| text.trim().trim_start_matches('*').trim().to_owned())
    };
    let lines: Vec<_> = source.lines().map(comment).collect();
    sentences(blocks(lines.into_iter()))
}

/// The sentences of a document in Markdown.
pub(super) fn document(text: &str) -> Vec<Piece> {
    let line = |line: &str| {
        let line = line.trim();
        (!line.starts_with('<')).then(|| line.trim_start_matches(['>', ' ']).to_owned())
    };
    sentences(blocks(text.lines().map(line)))
}

/// The names of the tests of Rust source, as words.
pub(super) fn tests(source: &str) -> Vec<Piece> {
    let mut is_test = false;
    let mut names = Vec::new();
    for (at, line) in (1..).zip(source.lines()) {
        let line = line.trim_start();
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            is_test = true;
            continue;
        }
        let name = line.split("fn ").nth(1).and_then(|rest| rest.split(['(', '<']).next());
        if let (true, Some(name)) = (is_test && !line.starts_with("//"), name) {
            names.push(Piece { line: at, text: name.replace('_', " ") });
            is_test = false;
        }
    }
    names
}

/// The string literals of Rust source that hold a message: text of three words or more outside tests.
pub(super) fn messages(source: &str) -> Vec<Piece> {
    let source = source.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = Vec::new();
    let (mut line, mut text, mut start) = (1, None::<String>, 1);
    let mut characters = source.chars().peekable();
    let mut before = '\n';
    while let Some(c) = characters.next() {
        line += usize::from(c == '\n');
        match (&mut text, c) {
            (None, '/') if before == '/' => {
                while characters.peek().is_some_and(|next| *next != '\n') {
                    characters.next();
                }
            }
            (None, '"') if before != '\'' => (text, start) = (Some(String::new()), line),
            (Some(text), '\\') => {
                let next = characters.next().unwrap_or(' ');
                line += usize::from(next == '\n');
                text.push(' ');
            }
            (Some(_), '"') => {
                let text = without_placeholders(&text.take().unwrap_or_default());
                if text.split_whitespace().count() >= 3 {
                    found.push(Piece { line: start, text });
                }
            }
            (Some(text), c) => text.push(c),
            (None, _) => {}
        }
        before = c;
    }
    found
}

/// A message without the names of its arguments.
fn without_placeholders(message: &str) -> String {
    let mut text = String::new();
    let mut depth = 0_usize;
    for c in message.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            c if depth == 0 => text.push(c),
            _ => {}
        }
    }
    text
}

/// Lines of prose that stand together. A list item and a heading begin another block, and so does each
/// cell of a table; code is left out.
fn blocks(lines: impl Iterator<Item = Option<String>>) -> Vec<Piece> {
    let mut blocks: Vec<Piece> = Vec::new();
    let (mut is_open, mut in_code) = (false, false);
    for (line, text) in (1..).zip(lines) {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            is_open = false;
            continue;
        };
        if text.starts_with("```") {
            in_code = !in_code;
            is_open = false;
            continue;
        }
        if text.starts_with('|') && !in_code {
            is_open = false;
            let cells = text.split('|').map(|cell| Piece { line, text: cell.trim().to_owned() });
            blocks.extend(cells);
            continue;
        }
        let heading = text.starts_with('#');
        let item = heading
            || text.starts_with(['-', '*'])
            || text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if in_code {
            is_open = false;
        } else if let (true, false, Some(block)) = (is_open, item, blocks.last_mut()) {
            block.text.push(' ');
            block.text.push_str(&text);
        } else {
            is_open = !heading;
            let text = text.trim_start_matches(['-', '*', '#', ' ']).to_owned();
            blocks.push(Piece { line, text });
        }
    }
    blocks
}

/// The sentences of blocks; a span of code counts as one word.
fn sentences(blocks: Vec<Piece>) -> Vec<Piece> {
    let split = |block: Piece| {
        let text = without_code(&block.text);
        let mut parts = Vec::new();
        let mut rest = text.as_str();
        while let Some(end) = rest.find(". ").or_else(|| rest.find("? ")) {
            parts.push(&rest[..=end]);
            rest = rest[end + 2..].trim_start();
        }
        parts.push(rest);
        let line = block.line;
        let of_words = parts.into_iter().filter(|part| part.split_whitespace().count() > 1);
        of_words.map(|text| Piece { line, text: text.to_owned() }).collect::<Vec<_>>()
    };
    blocks.into_iter().flat_map(split).collect()
}

fn without_code(text: &str) -> String {
    let spans = text.split('`').enumerate();
    spans.map(|(at, span)| if at % 2 == 0 { span } else { "`code`" }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(pieces: Vec<Piece>) -> Vec<(usize, String)> {
        pieces.into_iter().map(|piece| (piece.line, piece.text)).collect()
    }

    #[test]
    fn comments_are_read_as_sentences() {
        let source = "//! A head\n//! of two lines. Another `what` one.\n\nfn a() {}\n// why it\n";
        let expected = [(1, "A head of two lines."), (1, "Another `code` one."), (5, "why it")];
        assert_eq!(texts(comments(source)), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn comments_of_descriptions_are_found() {
        let source =
            "/*\n * One rule here.\n * 1. Another rule.\n */\nint a; /* of ours */\nint b;\n";
        let expected = [(2, "One rule here."), (3, "Another rule."), (5, "of ours")];
        assert_eq!(
            texts(description(source)),
            expected.map(|(line, text)| (line, text.to_owned()))
        );
    }

    #[test]
    fn documents_are_read_as_blocks_without_code() {
        let text = "# A title here\nA text.\n```\nwhat is it\n```\n| a cell | `b` |\n- an item\n- another item\n";
        let expected = [
            (1, "A title here"),
            (2, "A text."),
            (6, "a cell"),
            (7, "an item"),
            (8, "another item"),
        ];
        assert_eq!(texts(document(text)), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn tests_and_messages_are_found() {
        let source = "#[test]\nfn a_b_c() {}\nlet x = \"one two {what}three\"; // \"a b c\"\n\
            #[cfg(test)]\nmod tests {\n\"four five six\"\n}\n";
        assert_eq!(texts(tests(source)), [(2, "a b c".to_owned())]);
        assert_eq!(texts(messages(source)), [(3, "one two three".to_owned())]);
    }
}
