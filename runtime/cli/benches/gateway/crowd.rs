//! Many who listen: this program again, so that what it costs is not the daemon's.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Builder,
    task::JoinSet,
};

use crate::daemon::events;

/// For how long a crowd may be behind.
const SOON: Duration = Duration::from_secs(60);

/// How many streams a token may have open is less than there are of these.
pub(crate) const PER_TOKEN: usize = 1000;

/// Subscribers of a session, in a process of their own.
pub(crate) struct Crowd {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Crowd {
    /// Comes back when each has the answer to its request.
    pub(crate) fn join(
        http: &str,
        tokens: &[String],
        session: &str,
        after: u64,
        count: usize,
    ) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "listen",
                http,
                session,
                &after.to_string(),
                &count.to_string(),
            ])
            .args(tokens);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut crowd = Self {
            said: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        assert_eq!(crowd.line(), "there");
        crowd
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Lets them go when each has had so many events.
    pub(crate) fn leave(mut self, events: u64) {
        writeln!(self.child.stdin.take().unwrap(), "{events}").unwrap();
        assert_eq!(self.line(), "heard");
        self.child.wait().unwrap();
    }
}

/// The process of a crowd.
pub(crate) fn run(args: &[String]) {
    let [http, session, after, count, tokens @ ..] = args else {
        panic!("{args:?}")
    };
    let (after, count): (u64, usize) = (after.parse().unwrap(), count.parse().unwrap());
    trunkline_process::raise_open_files().unwrap();
    let address: SocketAddr = http.parse().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut readers = JoinSet::new();
        let (left, leaves) = tokio::sync::watch::channel(u64::MAX);
        for number in 0..count {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let head = events(http, &tokens[number / PER_TOKEN], session, after);
            stream.write_all(head.as_bytes()).await.unwrap();
            // What comes first is padding.
            let mut room = vec![0; 4096];
            let mut first = Vec::new();
            while !first.windows(4).any(|end| end == b" \n\n\r") {
                let read = stream.read(&mut room).await.unwrap();
                assert!(
                    read > 0 && !first.starts_with(b"HTTP/1.1 4"),
                    "{}",
                    String::from_utf8_lossy(&first)
                );
                first.extend_from_slice(&room[..read]);
            }
            let mut leaves = leaves.clone();
            readers.spawn(async move {
                let mut events = 0;
                let mut last = b' ';
                while events < *leaves.borrow_and_update() {
                    tokio::select! {
                        read = stream.read(&mut room) => {
                            let read = read.unwrap();
                            assert!(read > 0, "the stream has ended");
                            for byte in &room[..read] {
                                events += u64::from(*byte == b'\n' && last == b'\n');
                                last = *byte;
                            }
                        }
                        _ = leaves.changed() => {}
                    }
                }
            });
        }
        println!("there");
        let asked = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).map(|_| line)
        });
        left.send_replace(asked.await.unwrap().unwrap().trim().parse().unwrap());
        tokio::time::timeout(SOON, readers.join_all())
            .await
            .expect("all hear all");
    });
    println!("heard");
    std::io::stdout().flush().unwrap();
}
