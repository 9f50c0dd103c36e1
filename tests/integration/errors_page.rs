//! docs/errors.md against the program and its source: what it shows is what is said, and nothing that is said is missing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::{attn_in, attn_words, folder};

/// What depends on the machine.
const ANYTHING: &str = "…";

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/errors.md");
    fs::read_to_string(path).expect("the page is there")
}

/// Commands of the page and what they say, from its fences.
fn shown(page: &str) -> Vec<(String, String)> {
    let blocks = page.split("```console\n$ ").skip(1).filter_map(|rest| rest.split_once("\n```"));
    let parts = blocks.filter_map(|(block, _)| block.split_once('\n'));
    parts.map(|(command, message)| (command.to_string(), message.to_string())).collect()
}

/// Whether `text` is `pattern`, in which `…` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let parts: Vec<&str> = pattern.split(ANYTHING).collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    if parts.len() == 1 {
        return pattern == text;
    }
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in &parts[1..parts.len() - 1] {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The files that the commands name: few numbers of no meaning.
fn fill(folder: &Path) {
    let write = |name: &str, content: &[u8]| fs::write(folder.join(name), content).expect("room");
    write("notes.csv", b"name,value\na,1\n");
    write("empty.json", b"\n");
    write("cut.json", b"{\"command\":\"variance\"");
    write("other.json", b"{\"command\":\"benchmark\"}");
    fs::create_dir(folder.join("occupied")).expect("room");
    write("occupied/thesis.tex", b"x");
    write("typo.toml", b"[[check]]\nname = \"variance\"\nrun = \"variance --dk 64\"\nexpected = \"upheld\"\n");
    write("empty.toml", b"false-alarm = 1e-6\n");
    write("own-seed.toml", b"[[check]]\nname = \"variance\"\nrun = \"variance --dk 64 --seed 3\"\n");
    write("empty-run.toml", b"[[check]]\nname = \"audit\"\nrun = \"audit dump.safetensors\"\n");
    let mut single = b"\x93NUMPY\x01\x00v\x00".to_vec();
    single.extend(format!("{:<117}\n", "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }").into_bytes());
    single.extend([0; 48]);
    write("single.npy", &single);
    let arrays = [("k", "[1,1,3,2]", 0, 48), ("p", "[1,1,3,3]", 48, 120), ("q", "[1,1,3,2]", 120, 168)];
    let entry = |&(name, shape, start, end): &(&str, &str, usize, usize)| {
        format!("\"layer0.{name}\":{{\"dtype\":\"F64\",\"shape\":{shape},\"data_offsets\":[{start},{end}]}}")
    };
    let header = format!("{{{}}}", arrays.iter().map(entry).collect::<Vec<_>>().join(","));
    let header = format!("{header:<width$}", width = header.len().next_multiple_of(8));
    let numbers = vec![0; 168];
    write("dump.safetensors", &[&(header.len() as u64).to_le_bytes(), header.as_bytes(), &numbers].concat());
    for line in [
        "variance -n 8 --trials 4 --shard 1/2 --per-trial s1.csv -q",
        "variance -n 8 --trials 4 --dk 32 --shard 2/2 --per-trial other.csv -q",
    ] {
        assert_eq!(attn_in(folder, line).code, Some(0), "{line}");
    }
}

#[test]
fn every_message_on_the_page_is_what_its_command_says() {
    let folder = folder();
    fill(folder.path());
    let shown = shown(&page());
    assert!(shown.len() > 100, "only {} commands were found", shown.len());
    let mut wrong = Vec::new();
    for (command, message) in shown {
        let words = shlex::split(&command).expect("a shell reads it");
        let run = attn_words(folder.path(), &words[1..]);
        if run.code != Some(2) || !fits(&message, run.stderr.trim_end()) {
            wrong.push(format!(
                "{command}\n  page:    {message}\n  program: {} (exit code {:?})",
                run.stderr.trim_end(),
                run.code
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The source of the subcommands, without tests.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.join("commands"), root.join("cli")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.to_string_lossy().ends_with("_tests.rs") {
                let text = fs::read_to_string(&path).expect("readable");
                files.push((path, text.split("#[cfg(test)]").next().unwrap_or_default().to_string()));
            }
        }
    }
    let source = root.join("report/page/source.rs");
    files.push((source.clone(), fs::read_to_string(&source).expect("readable")));
    files
}

/// The literal that begins at the first quote of `rest`, if nothing but white space and `format!(` stands before it.
fn literal(rest: &str) -> Option<String> {
    let start = rest.find('"')?;
    if !rest[..start].trim().trim_start_matches("format!(").trim().is_empty() {
        return None;
    }
    let mut text = String::new();
    let mut characters = rest[start + 1..].chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => return Some(text),
            '\\' => match characters.next()? {
                // A line that goes on: the white space behind it is not in the text, and is folded below.
                '\n' => text.push(' '),
                escaped => text.push(escaped),
            },
            other => text.push(other),
        }
    }
    None
}

fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The longest part of a message between what is put into it.
fn telling_part(message: &str) -> String {
    let parts = message.split('{').map(|part| part.split_once('}').map_or(part, |(_, text)| text));
    let longest = parts.max_by_key(|part| part.len()).unwrap_or_default();
    folded(longest.trim_matches(|character: char| !character.is_alphanumeric() && character != '-'))
}

#[test]
fn every_message_of_the_subcommands_is_on_the_page() {
    let page = folded(&page());
    let (mut found, mut missing) = (0, Vec::new());
    for (path, source) in sources() {
        for sign in ["bail!(", "anyhow!(", "Err("] {
            for (start, _) in source.match_indices(sign) {
                let Some(message) = literal(&source[start + sign.len()..]) else { continue };
                let part = telling_part(&message);
                // What is so short names an option only; its rule comes from elsewhere.
                if part.len() < 14 {
                    continue;
                }
                found += 1;
                if !page.contains(&part) {
                    missing.push(format!("{}: {message}", path.display()));
                }
            }
        }
    }
    assert!(found > 80, "only {found} messages were found");
    assert!(missing.is_empty(), "not in docs/errors.md:\n{}", missing.join("\n"));
}

#[test]
fn the_reader_of_the_source_finds_a_message_and_its_telling_part() {
    assert_eq!(literal("\n  \"a {b}: c\",\n x").as_deref(), Some("a {b}: c"));
    assert_eq!(literal("format!(\"say \\\"x\\\" \\\n     here\"").as_deref(), Some("say \"x\"       here"));
    assert_eq!(literal("error) \"x\""), None);
    assert_eq!(telling_part("--dk {}: must be at  least {one}"), "must be at least");
    assert!(fits("a … c", "a bb c") && fits("a", "a") && !fits("a … c", "a b") && !fits("a", "ab"));
}
