//! The script within the command lines that Codex shows.

/// The script of `/bin/bash -lc 'script'`, exactly as the shell gets it; every other command line as it is.
pub(super) fn script(line: &str) -> String {
    match shell_words::split(line).as_deref() {
        Ok([shell, flag, script])
            if shell.ends_with("sh")
                && !shell.contains(' ')
                && matches!(flag.as_str(), "-lc" | "-c") =>
        {
            script.clone()
        }
        _ => line.to_owned(),
    }
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
