//! User instructions, counted by callgrind where it is installed.

use std::process::Command;

use super::{
    host::{Runtime, open, plain_host, streamed, turn},
    report::Row,
};

/// The rows, or one that says that nothing was measured.
pub(crate) fn rows() -> Vec<Row> {
    let goals =
        [("stream", 20_000, 5_000.0, 3_500.0, "message"), ("turns", 5_000, 10_000.0, 7_000.0, "turn")];
    goals
        .into_iter()
        .map(|(work, count, reach, aim, of)| {
            let name = format!("user instructions per {of}, one thread");
            match (instructions(work, count), instructions(work, 2 * count)) {
                (Some(once), Some(twice)) => {
                    let each = (twice - once) / count as f64;
                    Row::at_most(name, "", [(each, 1.0)].into_iter(), Some(reach), Some(aim))
                }
                _ => Row::note(name, "not measured: valgrind is not installed".to_owned()),
            }
        })
        .collect()
}

fn instructions(work: &str, count: usize) -> Option<f64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--trace-children=no"])
        .arg(std::env::current_exe().unwrap())
        .args(["instructions", work, &count.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let (_, collected) = text.split_once("Collected : ")?;
    collected.split_whitespace().next()?.parse().ok()
}

/// What is counted.
pub(crate) fn work(args: &[String]) {
    let count = args[1].parse().unwrap();
    Runtime::Current.run(async {
        let host = plain_host();
        match args[0].as_str() {
            "stream" => assert_eq!(streamed(&open(&host), count, 120).await, count),
            _ => {
                let sessions: Vec<_> = (0..64).map(|_| open(&host)).collect();
                let mut tasks = tokio::task::JoinSet::new();
                for session in sessions {
                    tasks.spawn(async move {
                        for _ in 0..count / 64 {
                            turn(&session).await;
                        }
                    });
                }
                tasks.join_all().await;
            }
        }
        host.shutdown().await;
    });
}
