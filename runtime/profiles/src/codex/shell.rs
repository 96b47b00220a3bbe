//! The script within the command lines that Codex shows.

/// The script of `/bin/bash -lc 'script'`, exactly as the shell gets it; every other command line as it is.
pub(super) fn script(line: &str) -> String {
    match words(line).as_deref() {
        Some([shell, flag, script])
            if shell.ends_with("sh")
                && !shell.contains(' ')
                && matches!(flag.as_str(), "-lc" | "-c") =>
        {
            script.clone()
        }
        _ => line.to_owned(),
    }
}

/// The words of a quoted command line; nothing where it has more than three, or ends within quotes.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match char {
            ' ' | '\t' | '\n' => {
                words.extend(word.take());
                if words.len() > 3 {
                    return None;
                }
            }
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        char => word.push(char),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '\\' => match chars.next()? {
                            char @ ('$' | '`' | '"' | '\\') => word.push(char),
                            '\n' => {}
                            char => word.extend(['\\', char]),
                        },
                        char => word.push(char),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(chars.next()?),
            char => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_what_the_shell_gets() {
        for (line, expected) in [
            ("/bin/bash -lc 'touch a b'", "touch a b"),
            ("bash -lc ls", "ls"),
            (
                r#"/bin/zsh -lc "echo \"hi\" \$HOME 'x' \n""#,
                r#"echo "hi" $HOME 'x' \n"#,
            ),
            (r"bash -c 'it'\''s'", "it's"),
            ("bash -lc 'open", "bash -lc 'open"),
            ("git commit -m x", "git commit -m x"),
            ("bash -lc a b", "bash -lc a b"),
            ("bash -x ls", "bash -x ls"),
            ("", ""),
        ] {
            assert_eq!(script(line), expected);
        }
    }
}
