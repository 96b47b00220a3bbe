//! The tutorial: each of its commands runs in order, and prints what the page shows.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process_group};
use trunkline_testing::has_program;

use super::{Home, terminal::TERMINAL};

/// Block of commands of the page.
struct Step {
    /// Runs in a terminal of its own, which stays.
    is_second: bool,
    commands: String,
    /// Lines that a person types.
    typed: Vec<String>,
    /// Output that the page shows, if it shows any.
    output: Option<String>,
}

/// Returns the blocks of commands of a page, each with the output that follows it.
fn parse_steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut typed = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(list) = line.strip_prefix("<!-- typed: ") {
            let list = list.trim_end_matches(" -->").split(" | ");
            typed = list.map(str::to_owned).collect();
        }
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let block: String = lines
            .by_ref()
            .take_while(|line| *line != "```")
            .flat_map(|line| [line, "\n"])
            .collect();
        match language {
            "text" => steps.last_mut().unwrap().output = Some(block),
            "sh" | "sh second terminal" => steps.push(Step {
                is_second: language != "sh",
                commands: block,
                typed: std::mem::take(&mut typed),
                output: None,
            }),
            other => panic!("a block of {other:?}"),
        }
    }
    steps
}

/// Returns the words of an output without what differs from run to run: ids, times and line breaks.
fn normalize(output: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in output.split_whitespace() {
        let is_id = |prefix| word.strip_prefix(prefix).is_some_and(|id| id.len() >= 8);
        let is_time = matches!(word, "ms" | "s" | "min");
        if is_time && words.last().is_some_and(|word| word.parse::<f64>().is_ok()) {
            words.pop();
            words.push("TIME");
        } else if is_id("run-") {
            words.push("RUN");
        } else {
            words.push(word);
        }
    }
    words.join(" ")
}

/// Returns the first id of a chat in a text.
fn chat_id(text: &str) -> Option<&str> {
    text.split_whitespace()
        .find(|word| word.starts_with("chat-") && word.len() == "chat-".len() + 8)
}

/// A person's terminal: a shell that reads one command after another.
struct Shell {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Shell {
    fn start(home: &Home, programs: &Path, folder: &Path) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(programs.to_owned()).chain(std::env::split_paths(&path));
        let mut child = Command::new("sh")
            .current_dir(folder)
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", home.path())
            .env("TERM", "dumb")
            .env("NO_COLOR", "1")
            .env_remove("PYTHONPATH")
            .env_remove("TRUNKLINE_AGENT")
            .env_remove("TRUNKLINE_CONFIG")
            .env_remove("TRUNKLINE_STATE")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn send(&mut self, commands: &str) {
        self.stdin.write_all(commands.as_bytes()).unwrap();
    }

    /// Returns the lines up to one that begins with `last`, and the rest of that one.
    fn read_until(&mut self, last: &str) -> (String, String) {
        let mut output = String::new();
        loop {
            let mut line = String::new();
            let length = self.stdout.read_line(&mut line).unwrap();
            assert_ne!(length, 0, "the shell ended: {output}");
            if let Some(rest) = line.strip_prefix(last) {
                return (output, rest.trim().to_owned());
            }
            output.push_str(&line);
        }
    }

    /// Runs a file of commands, and returns what it prints.
    #[track_caller]
    fn run(&mut self, file: &Path) -> String {
        self.send(&format!(
            ". {} </dev/null 2>&1; status=$?; echo; echo \"@@@ $status\"\n",
            file.display()
        ));
        let (output, status) = self.read_until("@@@ ");
        let commands = fs::read_to_string(file).unwrap();
        assert_eq!(status, "0", "{commands}: {output}");
        output
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // With the daemon that it may run.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Returns what a person does, as `talk.py`: types each line at the prompt that the page shows before
/// it, waits for the answer, and leaves by Ctrl-D.
fn talk_script(step: &Step) -> String {
    let mut script = String::new();
    let mut rest = step.output.as_deref().expect("output of a conversation");
    for typed in &step.typed {
        let (before, after) = rest.split_once(&format!("› {typed}\n")).expect(typed);
        let prompt = before.rsplit('\n').next().unwrap();
        let prompt = if prompt.is_empty() { "\n" } else { prompt };
        let answer = after.lines().next().unwrap();
        script.push_str(&format!(
            "expect({:?})\nsend({:?})\nexpect({answer:?})\n",
            format!("{prompt}› "),
            format!("{typed}\n")
        ));
        rest = after;
    }
    script.push_str("expect('\\n› ')\nsend('\\x04')\ndone()\n");
    script
}

#[test]
fn every_command_of_the_tutorial_prints_what_the_page_shows() {
    if !has_program("python3") || !has_program("curl") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let page = fs::read_to_string(root.join("docs/tutorial.md")).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let up = format!("trunkline up --http 127.0.0.1:{port}");
    let page = page
        .replace("7457", &port.to_string())
        .replace("trunkline up\n", &format!("{up}\n"))
        .replace("trunkline up'\n", &format!("{up}'\n"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let (_, adapter) = readme.split_once("```python\n").unwrap();
    let (adapter, _) = adapter.split_once("```").unwrap();
    assert!(
        page.contains(adapter),
        "the page has another adapter than the README"
    );
    let mut id = chat_id(&page).expect("an id of a chat").to_owned();

    let home = Home::new();
    home.file("terminal.py", TERMINAL);
    let programs = Path::new(env!("CARGO_BIN_EXE_trunkline")).parent().unwrap();
    let mut first = Shell::start(&home, programs, &root);
    let mut second = Shell::start(&home, programs, &root);
    let mut ran = 0;
    for mut step in parse_steps(&page) {
        if step.commands.starts_with("cargo ") {
            continue;
        }
        ran += 1;
        let shown = chat_id(&page).unwrap();
        step.commands = step.commands.replace(shown, &id);
        let output = if step.is_second {
            second.send(&step.commands);
            let (before, last) = second.read_until("agents: ");
            format!("{before}agents: {last}")
        } else {
            if !step.typed.is_empty() {
                home.file("talk.py", &talk_script(&step));
                step.commands = format!(
                    "python3 {}/terminal.py /bin/sh -c 'exec \"$0\" \"$@\"' {}",
                    home.path().display(),
                    step.commands
                );
            }
            let file = home.file("step.sh", &step.commands);
            let mut output = first.run(&file);
            // A list changes until the agent asks.
            let shown = step.output.as_deref().map(normalize);
            while step.commands.ends_with("trunkline sessions\n")
                && shown.as_ref().is_some_and(|shown| shown.contains("asks"))
                && !output.contains("asks")
            {
                let file = home.file("step.sh", "trunkline sessions\n");
                output = first.run(&file);
            }
            output
        };
        if ran > 1 && id == shown && !step.typed.is_empty() {
            chat_id(&output).expect(&output).clone_into(&mut id);
        }
        if let Some(expected) = &step.output {
            let output = output.replace(&id, chat_id(&page).unwrap());
            assert_eq!(
                normalize(&output),
                normalize(expected),
                "after {}: {output}",
                step.commands
            );
        } else if step.commands.contains("curl ") {
            let answer: serde_json::Value = serde_json::from_str(&output).expect(&output);
            let text = answer["text"].as_str().unwrap();
            assert!(page.contains(&format!("Its `text` is `{text}`")), "{text}");
        }
    }
    assert!(ran >= 15, "{ran} blocks of commands ran");
    // `trunkline down` ended the daemon.
    second.send("exit $?\n");
    assert_eq!(second.child.wait().unwrap().code(), Some(0));
}
