//! The commented file that `leasehold config init` writes, and the reference of its options. Both
//! are generated from the definition of the options.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use serde_json::Value;

use super::options::File;
use crate::failure::{Failure, Kind};
use crate::options::Init;

/// A table of options in the file.
struct Table {
    /// The heading of the table in the file.
    head: &'static str,
    /// The name of the type that defines the options.
    definition: &'static str,
    /// The options that the commented file contains as active lines, without a `#`.
    plain: &'static [&'static str],
}

const TABLES: &[Table] = &[
    Table { head: "[server]", definition: "Server", plain: &["listen"] },
    Table { head: "[limits]", definition: "Limits", plain: &[] },
    Table { head: "[iod]", definition: "Iod", plain: &[] },
    Table { head: "[[export]]", definition: "Export", plain: &["directory"] },
    Table { head: "[[export.client]]", definition: "Client", plain: &[] },
];

const HEAD: &str = "\
# The configuration of a Leasehold server: leasehold serve --config FILE
#
# A line with `# ` and a name shows the default or an example; remove the `# ` to change it.
# `leasehold check --config FILE` explains the effect of the file, `leasehold reload` makes a
# running server apply it, and `leasehold why` explains the rights of one client.
";

/// Writes the commented file.
pub(crate) fn run(options: &Init) -> Result<(), Failure> {
    let text = commented();
    let written = match &options.file {
        None => io::stdout().write_all(text.as_bytes()),
        Some(path) => std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes())),
    };
    written.map_err(|error| {
        let place = options.file.as_ref().map_or("stdout".into(), |path| path.to_string_lossy());
        Kind::Options.because(format!("cannot write {place}: {error}"))
    })
}

/// Returns the commented file.
pub(crate) fn commented() -> String {
    let mut text = HEAD.to_owned();
    for table in TABLES {
        // Put a `#` before the headings of these tables. An active table `[[export.client]]` would
        // change the rights at most servers, and an active `[iod]` would be rejected because its
        // required options are comments.
        let hidden = if ["Client", "Iod"].contains(&table.definition) { "# " } else { "" };
        let _ = write!(text, "\n{hidden}{}\n", table.head);
        for option in options(table) {
            text.push('\n');
            for line in option.comment.lines() {
                let _ = writeln!(text, "{}", format!("# {line}").trim_end());
            }
            let hidden = if table.plain.contains(&&*option.name) { "" } else { "# " };
            let _ = writeln!(text, "{hidden}{} = {}", option.name, option.value);
        }
    }
    text
}

/// One option of the definition.
struct Defined {
    name: String,
    comment: String,
    /// The default of the option or an example, in the syntax of the file.
    value: String,
}

fn options(table: &Table) -> Vec<Defined> {
    let schema = schemars::schema_for!(File).to_value();
    let definition = &schema["$defs"][table.definition]["properties"];
    let properties = definition.as_object().into_iter().flatten();
    let mut options: Vec<Defined> = properties
        .filter(|(_, property)| !property["init"].is_null())
        .map(|(name, property)| Defined {
            name: name.clone(),
            comment: property["description"].as_str().unwrap_or_default().to_owned(),
            value: as_toml(&property["init"]),
        })
        .collect();
    // Put the required options first; the others follow in alphabetical order.
    options.sort_by_key(|option| !["directory", "from"].contains(&&*option.name));
    options
}

fn as_toml(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            format!("[{}]", list.iter().map(as_toml).collect::<Vec<_>>().join(", "))
        }
        Value::Object(pairs) => {
            let pairs = pairs.iter().map(|(name, value)| format!("{name} = {}", as_toml(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    #[test]
    fn reference_matches_the_code() {
        let mut text = String::from(
            "# The configuration file\n\nThe options of `leasehold serve --config FILE`, in TOML. \
             `leasehold config init` writes a file with all of them in comments. Unknown options \
             are errors. An option on the command line overrides the file. All machines of a \
             cluster can share one file: `[iod]` describes the options that `leasehold iod \
             --config FILE` uses.\n",
        );
        for table in TABLES {
            write!(text, "\n## `{}`\n", table.head).expect("a string takes all");
            for option in options(table) {
                let (name, value) = (&option.name, &option.value);
                write!(text, "\n### `{name}`\n\n{}\n\n    {name} = {value}\n", option.comment)
                    .expect("a string takes all");
            }
        }
        let path = "../../docs/reference/configuration.md";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        if env::var_os("REFERENCE").is_some_and(|mode| mode == "rewrite") {
            fs::write(&path, &text).expect("the document can be written");
            return;
        }
        let written = fs::read_to_string(&path).expect("the document is there");
        assert!(written == text, "configuration.md is out of date: REFERENCE=rewrite updates it");
    }

    /// Every option has a comment and a value, and the file can be parsed with all of them.
    #[test]
    fn commented_file_is_valid() {
        let count: usize = TABLES.iter().map(|table| options(table).len()).sum();
        assert!(count >= 20, "{count} options");
        let empty = |option: &Defined| option.comment.is_empty() || option.value.is_empty();
        assert!(!TABLES.iter().flat_map(options).any(|option| empty(&option)));
        let plain: File = toml::from_str(&commented()).expect("it is a file");
        assert_eq!(plain.export.len(), 1);
        let uncommented: String = commented()
            .lines()
            .filter_map(|line| match line.strip_prefix("# ") {
                Some(line) if is_table(line) || is_option(line) => Some(line),
                Some(_) => None,
                None => Some(line),
            })
            .map(|line| line.to_owned() + "\n")
            .collect();
        let all: File = toml::from_str(&uncommented).expect("it is a file");
        assert_eq!(all.export[0].get_ref().client[0].uid_map.len(), 2);
        assert!(all.server.threads.is_some() && all.limits.transfer_size.is_some());
        assert!(all.iod.is_some() && plain.iod.is_none());
    }

    /// The last line of a comment may be `[default: 3]`.
    fn is_table(line: &str) -> bool {
        line.starts_with('[') && !line.starts_with("[default: ")
    }

    fn is_option(line: &str) -> bool {
        let named = |option: &Defined| line.starts_with(&format!("{} = ", option.name));
        TABLES.iter().flat_map(options).any(|option| named(&option))
    }
}
