//! Rules on Rust source in the format of `cargo fmt`: a body ends with a brace that has the indent
//! of its first line.

use super::Fault;

/// The keywords that may precede `fn`.
const QUALIFIERS: &[&str] = &["pub", "const", "async", "unsafe", "extern", "\"C\"", "default"];

/// Returns the functions of more than `limit` lines.
pub(super) fn functions_over(limit: usize, text: &str) -> Vec<Fault> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = (0..lines.len()).filter_map(|at| Some((at, function_name(lines[at])?)));
    let counted = starts.map(|(at, name)| (at, name, function_lines(&lines[at..])));
    let long = counted.filter(|(_, _, count)| *count > limit);
    long.map(|(at, name, count)| (at + 1, format!("{name} has {count} lines"))).collect()
}

/// Returns the name of the function that begins on a line.
fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let before_name = |word: &&str| {
        let plain = word.split('(').next().unwrap_or_default();
        QUALIFIERS.contains(&plain) || word.ends_with("super)")
    };
    let keyword = words.by_ref().find(|word| !before_name(word))?;
    if keyword != "fn" {
        return None;
    }
    words.next()?.split(['(', '<']).next()
}

/// Returns the length of the function that begins with the first of these lines.
fn function_lines(lines: &[&str]) -> usize {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let start = depth(lines[0]);
    // A line with the indent of the first one ends the function, unless it only begins the body.
    let ends = |line: &str| {
        let outermost = !line.is_empty() && depth(line) == start;
        outermost && (line.ends_with('}') || line.ends_with(';'))
    };
    lines.iter().position(|line| ends(line)).map_or(lines.len(), |last| last + 1)
}

/// Returns the lines with unsafe code.
pub(super) fn unsafe_code(text: &str) -> Vec<Fault> {
    const KEYWORD: &str = "unsafe";
    let is_unsafe = |line: &str| {
        let mut found = line.match_indices(KEYWORD);
        found.any(|(at, _)| {
            let whole = !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            let next = line[at + KEYWORD.len()..].trim_start();
            let opens = ["{", "(", "fn ", "impl", "extern ", "trait "];
            whole && opens.iter().any(|word| next.starts_with(word))
        })
    };
    code_lines(text)
        .filter(|(_, line)| is_unsafe(line))
        .map(|(at, _)| (at, "unsafe".into()))
        .collect()
}

/// Returns the tests that are never run.
pub(super) fn ignored_tests(text: &str) -> Vec<Fault> {
    let is_one = |line: &str| line.trim_start().starts_with("#[ignore");
    code_lines(text)
        .filter(|(_, line)| is_one(line))
        .map(|(at, _)| (at, "ignored".into()))
        .collect()
}

/// Returns numbered lines without comments.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines().map(|line| line.split("//").next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
        trait A {\n    fn declared(\n        x: u8,\n    ) -> u8;\n}\n\n\
        pub(crate) const fn one() {}\n\n\
        impl A for B {\n    async fn long<T>(\n        x: T,\n    ) -> u8\n    where\n        \
        T: C,\n    {\n        if x {\n            y();\n        }\n    }\n}\n";

    #[test]
    fn functions_are_measured_from_their_head_to_their_last_brace() {
        let faults = functions_over(0, TEXT);
        let expected =
            [(2, "declared has 3 lines"), (7, "one has 1 lines"), (10, "long has 10 lines")];
        assert_eq!(faults, expected.map(|(at, what)| (at, what.to_owned())));
        assert_eq!(functions_over(9, TEXT).len(), 1);
        assert_eq!(functions_over(10, TEXT).len(), 0);
    }

    #[test]
    fn unsafe_code_is_found_and_mentions_of_it_are_not() {
        let code = format!("let x = {} {{ y() }};", "unsafe");
        assert_eq!(unsafe_code(&code).len(), 1);
        assert_eq!(unsafe_code(&format!("// {code}")).len(), 0);
        assert_eq!(unsafe_code("unsafe_code = \"deny\"").len(), 0);
    }

    #[test]
    fn ignored_tests_are_found() {
        assert_eq!(ignored_tests("    #[ignore]\n    fn a() {}\n").len(), 1);
        assert_eq!(ignored_tests("// #[ignore]\n").len(), 0);
    }
}
