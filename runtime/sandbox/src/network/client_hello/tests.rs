use proptest::prelude::*;

use super::*;

type Extension = (u16, Vec<u8>);

fn vector16(content: &[u8]) -> Vec<u8> {
    [
        &u16::try_from(content.len()).unwrap().to_be_bytes()[..],
        content,
    ]
    .concat()
}

fn name_entry(kind: u8, name: &str) -> Vec<u8> {
    [&[kind][..], &vector16(name.as_bytes())].concat()
}

fn server_name(name: &str) -> Extension {
    (SERVER_NAME, vector16(&name_entry(HOST_NAME, name)))
}

/// Returns a complete handshake message.
fn message(extensions: &[Extension]) -> Vec<u8> {
    let listed: Vec<u8> = extensions
        .iter()
        .flat_map(|(kind, content)| [&kind.to_be_bytes()[..], &vector16(content)].concat())
        .collect();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &[0, 2, 0x13, 1],
        &[1, 0],
        &vector16(&listed),
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&[CLIENT_HELLO][..], &length[1..], &body].concat()
}

/// Splits `message` into records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    message
        .chunks(size)
        .flat_map(|part| [&[HANDSHAKE, 3, 1][..], &vector16(part)].concat())
        .collect()
}

fn read(bytes: &[u8]) -> Result<Option<ClientHello>, HelloProblem> {
    Ok(HelloReader::default().push(bytes)?.map(|(hello, _)| hello))
}

/// Reads `bytes` in portions of the lengths in `cuts`, which repeat.
fn read_split(bytes: &[u8], cuts: &[usize]) -> Result<Option<ClientHello>, HelloProblem> {
    let mut reader = HelloReader::default();
    let mut rest = bytes;
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            return Ok(None);
        }
        let (part, after) = rest.split_at((*cut).clamp(1, rest.len()));
        rest = after;
        if let Some((hello, _)) = reader.push(part)? {
            return Ok(Some(hello));
        }
    }
    Ok(None)
}

fn named(name: &str) -> ClientHello {
    ClientHello {
        server_name: Some(name.to_owned()),
        encrypted: false,
    }
}

#[test]
fn the_name_is_found_in_one_record_and_in_many() {
    let hello = message(&[
        (43, vec![2, 3, 4]),
        server_name("example.com"),
        (51, vec![0; 900]),
    ]);
    for size in [16 * 1024, 100, 7, 1] {
        assert_eq!(
            read(&records(&hello, size)),
            Ok(Some(named("example.com"))),
            "{size}"
        );
    }
}

#[test]
fn a_missing_and_an_encrypted_name_are_reported() {
    assert_eq!(
        read(&records(&message(&[]), 99)),
        Ok(Some(ClientHello {
            server_name: None,
            encrypted: false
        }))
    );
    let hello = message(&[server_name("outer.test"), (ENCRYPTED_CLIENT_HELLO, vec![1])]);
    let encrypted = ClientHello {
        encrypted: true,
        ..named("outer.test")
    };
    assert_eq!(read(&records(&hello, 999)), Ok(Some(encrypted)));
}

#[test]
fn what_could_mean_two_names_is_refused() {
    let two_in_a_list = (
        SERVER_NAME,
        vector16(
            &[
                name_entry(HOST_NAME, "a.test"),
                name_entry(HOST_NAME, "b.test"),
            ]
            .concat(),
        ),
    );
    for extensions in [
        vec![server_name("a.test"), server_name("b.test")],
        vec![server_name("a.test"), server_name("a.test")],
        vec![two_in_a_list],
        vec![(SERVER_NAME, vector16(&name_entry(1, "a.test")))],
        vec![(SERVER_NAME, vector16(&name_entry(HOST_NAME, "")))],
        vec![(SERVER_NAME, vec![])],
        vec![(
            SERVER_NAME,
            [vector16(&name_entry(HOST_NAME, "a.test")), vec![0]].concat(),
        )],
    ] {
        assert_eq!(
            read(&records(&message(&extensions), 999)),
            Err(HelloProblem::Malformed),
            "{extensions:?}"
        );
    }
    let twice = [
        message(&[server_name("a.test")]),
        message(&[server_name("b.test")]),
    ]
    .concat();
    assert_eq!(
        read(&records(&twice, 16 * 1024)),
        Err(HelloProblem::Malformed)
    );
}

#[test]
fn what_follows_in_further_records_is_not_read() {
    let hello = records(&message(&[server_name("a.test")]), 20);
    let bytes = [&hello[..], &[23, 3, 3, 0, 1, 0, 255, 255]].concat();
    assert_eq!(
        HelloReader::default().push(&bytes),
        Ok(Some((named("a.test"), hello.len())))
    );
}

#[test]
fn after_a_retry_early_data_comes_before_the_second_hello_and_nothing_else() {
    let hello = records(&message(&[server_name("a.test")]), 50);
    let early = [20, 3, 3, 0, 1, 1, 23, 3, 3, 0, 2, 0, 0];
    let second = |bytes: &[u8]| HelloReader::after_retry().push(bytes);
    assert_eq!(
        second(&[&early[..], &hello].concat()),
        Ok(Some((named("a.test"), early.len() + hello.len())))
    );
    assert_eq!(second(&hello), Ok(Some((named("a.test"), hello.len()))));
    assert_eq!(
        second(&[&hello[..55], &early].concat()),
        Err(HelloProblem::Malformed)
    );
    assert_eq!(
        second(&[21, 3, 3, 0, 2, 2, 40]),
        Err(HelloProblem::Malformed)
    );
    assert_eq!(
        read(&[&early[..], &hello].concat()),
        Err(HelloProblem::NotTls)
    );
}

#[test]
fn other_protocols_and_broken_records_are_refused_at_once() {
    for bytes in [
        &b"GET / HTTP/1.1\r\n"[..],
        b"SSH-2.0-x",
        &[0x80, 0x2e, 1, 3, 1],
        &[22, 2, 0, 0, 5],
        &[21, 3, 3, 0, 2, 2, 40],
    ] {
        assert_eq!(read(bytes), Err(HelloProblem::NotTls), "{bytes:?}");
    }
    for bytes in [
        &[22, 3, 1, 0, 0][..],                      // an empty record
        &[22, 3, 1, 0x41, 1],                       // too long a record
        &[22, 3, 1, 0, 1, 2],                       // a ServerHello
        &[22, 3, 1, 0, 4, 1, 0, 0x80, 1],           // too long a message
        &[22, 3, 1, 0, 2, 1, 0, 23, 3, 3, 0, 1, 0], // other data in between
    ] {
        assert_eq!(read(bytes), Err(HelloProblem::Malformed), "{bytes:?}");
    }
}

fn a_hello() -> impl Strategy<Value = Vec<u8>> {
    let extension = prop_oneof![
        "[a-z.]{1,30}".prop_map(|name| server_name(&name)),
        (any::<u16>(), prop::collection::vec(any::<u8>(), 0..40)),
        Just((ENCRYPTED_CLIENT_HELLO, vec![0; 8])),
    ];
    (prop::collection::vec(extension, 0..5), 1_usize..600)
        .prop_map(|(extensions, size)| records(&message(&extensions), size))
}

proptest! {
    #[test]
    fn the_split_over_reads_makes_no_difference(
        mut bytes in a_hello(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cuts in prop::collection::vec(1_usize..50, 1..9),
    ) {
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let whole = read(&bytes);
        prop_assert_eq!(&read_split(&bytes, &cuts), &whole);
        prop_assert_eq!(&read_split(&bytes, &[1]), &whole);
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(1_usize..50, 1..9),
    ) {
        prop_assert_eq!(read_split(&bytes, &cuts), read(&bytes));
        let framed = records(&[&[CLIENT_HELLO, 0, 1, 0][..], &bytes].concat(), 400);
        prop_assert_eq!(read_split(&framed, &cuts), read(&framed));
    }
}
