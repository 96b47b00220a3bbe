use std::fs;

use super::*;

fn announced(path: &Path, mime: &str) -> FileInput {
    FileInput {
        file_name: Some("shown.bin".into()),
        file_mime_type: (!mime.is_empty()).then(|| mime.to_owned()),
        file_path: path.to_string_lossy().into_owned(),
        ..FileInput::default()
    }
}

fn written(folder: &tempfile::TempDir, bytes: &[u8]) -> FileInput {
    let path = folder.path().join("a file");
    fs::write(&path, bytes).unwrap();
    announced(&path, "text/plain")
}

#[test]
fn images_are_known_by_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for (bytes, mime) in [
        (&b"\x89PNG\r\n\x1a\nrest"[..], "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ] {
        let file = written(&folder, bytes);
        for native in [Native::Images, Native::ImagesAndTexts] {
            let Attachment::Image(image) = read(&file, native) else {
                panic!("{mime}")
            };
            assert_eq!(
                (image.mime, image.data.as_str()),
                (mime, STANDARD.encode(bytes).as_str())
            );
        }
        assert!(matches!(read(&file, Native::Nothing), Attachment::Path(_)));
    }
}

#[test]
fn blocks_have_the_agents_shapes() {
    let image = Image {
        mime: "image/png",
        data: "AA==".into(),
        path: "/p".into(),
    };
    assert_eq!(
        image.claude(),
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}})
    );
    assert_eq!(
        image.acp(),
        json!({"type": "image", "mimeType": "image/png", "data": "AA=="})
    );
    let text = TextFile {
        text: "t".into(),
        mime: "text/plain".into(),
        path: "/a b/ü%.txt".into(),
    };
    let resource =
        json!({"uri": "file:///a%20b/%C3%BC%25.txt", "mimeType": "text/plain", "text": "t"});
    assert_eq!(
        text.acp(),
        json!({"type": "resource", "resource": resource})
    );
}

#[test]
fn texts_go_along_where_they_are_taken_and_short() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(&folder, "grüße".as_bytes());
    let Attachment::Text(text) = read(&file, Native::ImagesAndTexts) else {
        panic!("a text")
    };
    assert_eq!(
        (text.text.as_str(), text.mime.as_str()),
        ("grüße", "text/plain")
    );
    assert!(matches!(read(&file, Native::Images), Attachment::Path(_)));
    for bytes in [&b"\xff\xfe"[..], b"a\0b", &vec![b'x'; 64 * 1024 + 1]] {
        assert!(matches!(
            read(&written(&folder, bytes), Native::ImagesAndTexts),
            Attachment::Path(_)
        ));
    }
}

#[test]
fn what_is_no_regular_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let png = folder.path().join("x.png");
    fs::write(&png, b"\x89PNG\r\n\x1a\n").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&png, &link).unwrap();
    for path in [
        link.as_path(),
        folder.path(),
        Path::new("/dev/zero"),
        Path::new("/no/such/file"),
        Path::new(""),
    ] {
        let attachment = read(&announced(path, ""), Native::ImagesAndTexts);
        let line = format!(
            "[File uploaded: shown.bin (application/octet-stream)] Path: {}",
            path.display()
        );
        assert_eq!(attachment, Attachment::Path(line));
    }
}

#[test]
fn an_image_may_have_five_mebibytes_and_not_one_byte_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.resize(5 * 1024 * 1024, 0);
    assert!(matches!(
        read(&written(&folder, &bytes), Native::Images),
        Attachment::Image(_)
    ));
    bytes.push(0);
    let Attachment::Path(line) = read(&written(&folder, &bytes), Native::Images) else {
        panic!("too large")
    };
    assert!(line.contains("5242881 bytes"), "{line}");
}

#[test]
fn a_file_by_its_path_is_a_line() {
    let file = announced(Path::new("/x/y.pdf"), "application/pdf");
    assert_eq!(
        path_text(&file, Some(3)),
        "[File uploaded: shown.bin (application/pdf, 3 bytes)] Path: /x/y.pdf"
    );
    let bare = FileInput {
        file_path: "/x/y.pdf".into(),
        ..FileInput::default()
    };
    assert_eq!(
        path_text(&bare, None),
        "[File uploaded: y.pdf (application/octet-stream)] Path: /x/y.pdf"
    );
    let odd = FileInput {
        file_name: Some("a\nb".into()),
        ..bare
    };
    assert!(path_text(&odd, None).starts_with("[File uploaded: a b "));
    let attachments = [
        Attachment::Path("one".into()),
        Attachment::Path("two".into()),
    ];
    assert_eq!(with_paths("say", &attachments), "one\ntwo\nsay");
    assert_eq!(with_paths("", &attachments), "one\ntwo");
    assert_eq!(with_paths("say", &[]), "say");
}

#[tokio::test]
async fn all_are_read_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let image = written(&folder, b"GIF87a");
    let missing = announced(Path::new("/no/such/file"), "");
    let read = read_all(vec![missing.clone(), image], Native::Images).await;
    assert!(
        matches!(&read[..], [Attachment::Path(_), Attachment::Image(_)]),
        "{read:?}"
    );
}
