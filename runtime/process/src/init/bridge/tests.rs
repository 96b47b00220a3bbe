use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;

use super::*;

/// A bridge that runs for as long as the test program, and the folder of its socket.
struct Place {
    port: u16,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("proxy.sock");
    let bridge = listen(0).unwrap();
    let port = bridge.port().unwrap();
    let to = socket.clone();
    thread::spawn(move || bridge.run(to));
    Place {
        port,
        socket,
        _folder: folder,
    }
}

impl Place {
    fn program(&self) -> TcpStream {
        let program = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        // Bounds a wait that ends much earlier unless something is broken.
        program
            .set_read_timeout(Some(std::time::Duration::from_secs(30)))
            .unwrap();
        program
    }
}

/// Sends back what it gets, in capitals, and its end after the end.
fn shout(mut stream: UnixStream) {
    let mut buffer = [0; 5000];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        if stream
            .write_all(&buffer[..count].to_ascii_uppercase())
            .is_err()
        {
            return;
        }
    }
}

#[test]
fn bytes_pass_both_ways_and_a_half_close_too() {
    let place = place();
    let listener = UnixListener::bind(&place.socket).unwrap();
    thread::spawn(move || {
        listener
            .incoming()
            .for_each(|stream| drop(thread::spawn(move || shout(stream.unwrap()))))
    });
    let programs: Vec<_> = (0..20)
        .map(|number| {
            let mut program = place.program();
            thread::spawn(move || {
                let sent = vec![b'a' + number; 300_000];
                let mut writing = program.try_clone().unwrap();
                let expected = sent.to_ascii_uppercase();
                let writer = thread::spawn(move || {
                    writing.write_all(&sent).unwrap();
                    writing.shutdown(Shutdown::Write).unwrap();
                });
                let mut got = Vec::new();
                program.read_to_end(&mut got).unwrap();
                writer.join().unwrap();
                assert!(got == expected);
            })
        })
        .collect();
    for program in programs {
        program.join().unwrap();
    }
}

#[test]
fn without_a_proxy_the_program_sees_the_end() {
    let place = place();
    let mut buffer = [0];
    assert!(!matches!(place.program().read(&mut buffer), Ok(1..)));
    // And the bridge serves on when there is one.
    let listener = UnixListener::bind(&place.socket).unwrap();
    let mut program = place.program();
    program.write_all(b"x").unwrap();
    let (mut proxy, _) = listener.accept().unwrap();
    proxy.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"x");
    drop(proxy);
    assert!(!matches!(program.read(&mut buffer), Ok(1..)));
}

#[test]
fn an_answer_before_the_request_is_whole_reaches_the_program() {
    let place = place();
    let listener = UnixListener::bind(&place.socket).unwrap();
    for _ in 0..20 {
        let mut program = place.program();
        let mut writing = program.try_clone().unwrap();
        let writer = thread::spawn(move || {
            // More than all buffers on the way hold, so that some of it comes after the end.
            while writing.write_all(&[b'x'; 100_000]).is_ok() {}
        });
        let (mut proxy, _) = listener.accept().unwrap();
        proxy.read_exact(&mut [0; 10]).unwrap();
        proxy.write_all(&[b'y'; 150_000]).unwrap();
        drop(proxy);
        let mut got = Vec::new();
        program.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), 150_000);
        program.shutdown(Shutdown::Both).unwrap();
        writer.join().unwrap();
    }
}

#[test]
fn more_connections_than_the_bound_wait_and_are_served_in_time() {
    let place = place();
    let listener = UnixListener::bind(&place.socket).unwrap();
    thread::scope(|scope| {
        // Neither side's queue of the system is as long as the bound, so both go at the same time.
        let programs = scope.spawn(|| {
            (0..MAX_LINKS + 10)
                .map(|_| place.program())
                .collect::<Vec<_>>()
        });
        let served: Vec<UnixStream> = (0..MAX_LINKS)
            .map(|_| listener.accept().unwrap().0)
            .collect();
        let programs = programs.join().unwrap();
        listener.set_nonblocking(true).unwrap();
        assert!(
            listener.accept().is_err(),
            "one more than the bound was taken"
        );
        listener.set_nonblocking(false).unwrap();
        drop(served);
        for program in programs.into_iter().take(MAX_LINKS) {
            drop(program);
        }
        for _ in 0..10 {
            listener.accept().unwrap();
        }
    });
}
