//! The hostile-path corpus, by both ways of walking, and the copies.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use rustix::fs::{FileType, Mode};
use tempfile::TempDir;
use trunkline_protocol::Sha256;

use super::check::{Found, check_by};
use super::confined::{OpenFolder, open_folder, walk_to_folder};
use super::*;

const WAYS: [(&str, OpenFolder); 2] = [
    ("the kernel", open_folder),
    ("component by component", walk_to_folder),
];
const LIMIT: u64 = 1000;
const SECRET: &[u8] = b"secret";

/// An allowed root beside a folder with a secret.
struct Place {
    _all: TempDir,
    root: PathBuf,
    outside: PathBuf,
    roots: Roots,
}

impl Place {
    fn new() -> Self {
        let all = TempDir::new().unwrap();
        let base = fs::canonicalize(all.path()).unwrap();
        let root = base.join("root");
        let outside = base.join("outside");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), SECRET).unwrap();
        let roots = Roots::new().and(&root).unwrap();
        Self {
            _all: all,
            root,
            outside,
            roots,
        }
    }

    fn write(&self, name: &str, size: usize) -> PathBuf {
        let path = self.root.join(name);
        fs::write(&path, vec![b'x'; size]).unwrap();
        path
    }

    fn store(&self) -> StoreDir {
        StoreDir::open(&self.outside.join("store")).unwrap()
    }

    #[track_caller]
    fn check(&self, path: impl AsRef<Path>, expected: Result<u64, Refusal>) {
        for (way, open_folder) in WAYS {
            let got = check_by(open_folder, path.as_ref(), &self.roots, LIMIT)
                .map(|checked| checked.size());
            assert_eq!(got, expected, "{} by {way}", path.as_ref().display());
        }
    }
}

#[test]
fn a_regular_file_in_a_root_is_taken() {
    let place = Place::new();
    place.check(place.write("a.txt", 3), Ok(3));
    place.check(place.write("sub/b.txt", LIMIT as usize), Ok(LIMIT));
    place.check(place.write("empty", 0), Ok(0));
    place.check(place.root.join("./sub/./b.txt"), Ok(LIMIT));
    place.check(place.write("..a b;$(c)", 1), Ok(1));
}

#[test]
fn one_byte_over_the_limit_is_too_large() {
    let place = Place::new();
    place.check(
        place.write("big", LIMIT as usize + 1),
        Err(Refusal::TooLarge {
            size: LIMIT + 1,
            limit: LIMIT,
        }),
    );
}

#[test]
fn paths_are_refused_by_their_letters() {
    let place = Place::new();
    place.write("a", 1);
    let root = place.root.display();
    place.check("a", Err(Refusal::NotAbsolute));
    place.check("", Err(Refusal::NotAbsolute));
    place.check("~/a", Err(Refusal::NotAbsolute));
    place.check(format!("{root}/../outside/secret"), Err(Refusal::Parent));
    place.check(format!("{root}/sub/../a"), Err(Refusal::Parent));
    place.check(format!("{root}/sub/.."), Err(Refusal::Parent));
    place.check(format!("{root}/a\0"), Err(Refusal::Nul));
    place.check(
        format!("{root}/a\0/../../outside/secret"),
        Err(Refusal::Nul),
    );
    place.check(format!("{root}/a\nb"), Err(Refusal::ControlCharacter));
    place.check(
        format!("{root}/{}", "x/".repeat(5000)),
        Err(Refusal::Unreadable(std::io::ErrorKind::InvalidFilename)),
    );
    let not_utf8 = std::ffi::OsStr::from_bytes(b"/\xff\xfe");
    place.check(not_utf8, Err(Refusal::Outside));
}

#[test]
fn absolute_paths_outside_are_refused() {
    let place = Place::new();
    place.check("/etc/passwd", Err(Refusal::Outside));
    place.check(place.outside.join("secret"), Err(Refusal::Outside));
    place.check("/", Err(Refusal::NotRegular));
    place.check("/proc/self/environ", Err(Refusal::Outside));
    // The name of the root is a prefix of this one's letters, not of its components.
    fs::create_dir(place.root.with_file_name("root-2")).unwrap();
    fs::write(place.root.with_file_name("root-2").join("a"), "x").unwrap();
    place.check(
        place.root.with_file_name("root-2").join("a"),
        Err(Refusal::Outside),
    );
}

#[test]
fn links_are_refused_wherever_they_are() {
    let place = Place::new();
    symlink(place.outside.join("secret"), place.root.join("final")).unwrap();
    symlink(&place.outside, place.root.join("folder")).unwrap();
    symlink("../outside", place.root.join("relative")).unwrap();
    symlink(place.root.join("nowhere"), place.root.join("dangling")).unwrap();
    symlink("loop", place.root.join("loop")).unwrap();
    symlink("/proc/self/root", place.root.join("magic")).unwrap();
    place.write("a", 1);
    symlink("a", place.root.join("inside")).unwrap();
    for path in [
        "final",
        "folder/secret",
        "relative/secret",
        "dangling",
        "loop",
        "loop/a",
        "inside",
    ] {
        place.check(place.root.join(path), Err(Refusal::Symlink));
    }
    place.check(place.root.join("magic/etc/passwd"), Err(Refusal::Symlink));
}

#[test]
fn a_hard_link_is_refused() {
    let place = Place::new();
    fs::hard_link(place.outside.join("secret"), place.root.join("hard")).unwrap();
    place.check(place.root.join("hard"), Err(Refusal::HardLinked));
}

#[test]
fn what_is_not_a_file_is_refused_without_waiting() {
    let place = Place::new();
    let fifo = place.root.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    place.check(fifo, Err(Refusal::NotRegular));
    let _socket = std::os::unix::net::UnixListener::bind(place.root.join("socket")).unwrap();
    place.check(place.root.join("socket"), Err(Refusal::NotRegular));
    place.check(place.root.join("sub"), Err(Refusal::NotRegular));
    place.check(&place.root, Err(Refusal::NotRegular));
    place.check(
        format!("{}/", place.write("a", 1).display()),
        Err(Refusal::NotRegular),
    );

    let devices = Place {
        roots: Roots::new().and(Path::new("/dev")).unwrap(),
        ..Place::new()
    };
    devices.check("/dev/zero", Err(Refusal::NotRegular));
    devices.check("/dev/null", Err(Refusal::NotRegular));
}

#[test]
fn what_is_missing_says_so() {
    let place = Place::new();
    place.write("a", 1);
    place.check(place.root.join("nothing"), Err(Refusal::Missing));
    place.check(place.root.join("no/thing"), Err(Refusal::Missing));
    place.check(place.root.join("a/thing"), Err(Refusal::Missing));
}

#[test]
fn a_swap_between_look_and_open_is_refused() {
    type Swap = fn(&Place, &Path);
    let swaps: [(&str, Swap, Refusal); 5] = [
        (
            "link",
            |p, at| symlink(p.outside.join("secret"), at).unwrap(),
            Refusal::Symlink,
        ),
        (
            "hard link",
            |p, at| fs::hard_link(p.outside.join("secret"), at).unwrap(),
            Refusal::HardLinked,
        ),
        (
            "another file",
            |_, at| fs::write(at, "other").unwrap(),
            Refusal::Changed,
        ),
        (
            "fifo",
            |_, at| {
                rustix::fs::mknodat(rustix::fs::CWD, at, FileType::Fifo, Mode::RUSR, 0).unwrap()
            },
            Refusal::NotRegular,
        ),
        ("nothing", |_, _| {}, Refusal::Missing),
    ];
    for (what, swap, expected) in swaps {
        for (way, open_folder) in WAYS {
            let place = Place::new();
            let path = place.write("sub/a", 1);
            let found = Found::look(open_folder, &path, &place.roots).unwrap();
            // Renamed, not removed, so that the new file cannot get the same inode.
            fs::rename(&path, place.root.join("kept")).unwrap();
            swap(&place, &path);
            assert_eq!(found.open(LIMIT).unwrap_err(), expected, "{what}, by {way}");
        }
    }
}

#[test]
fn a_folder_swapped_for_a_link_leads_nowhere() {
    let place = Place::new();
    let path = place.write("sub/secret", 1);
    for (_, open_folder) in WAYS {
        let found = Found::look(open_folder, &path, &place.roots).unwrap();
        fs::rename(place.root.join("sub"), place.root.join("moved")).unwrap();
        symlink(&place.outside, place.root.join("sub")).unwrap();
        // The folder is held: the same file is opened, by its handle.
        assert_eq!(found.open(LIMIT).unwrap().size(), 1);
        place.check(&path, Err(Refusal::Symlink));
        fs::remove_file(place.root.join("sub")).unwrap();
        fs::rename(place.root.join("moved"), place.root.join("sub")).unwrap();
    }
}

#[test]
fn a_racing_swap_never_yields_the_secret() {
    let place = Place::new();
    let store = place.store();
    let path = place.root.join("sub/secret");
    let honest = place.root.join("honest");
    let link = place.root.join("link");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2000 {
                fs::write(&honest, b"honest").unwrap();
                fs::rename(&honest, &path).unwrap();
                symlink(place.outside.join("secret"), &link).unwrap();
                fs::rename(&link, &path).unwrap();
                fs::rename(place.root.join("sub"), place.root.join("away")).unwrap();
                symlink(&place.outside, place.root.join("sub")).unwrap();
                fs::remove_file(place.root.join("sub")).unwrap();
                fs::rename(place.root.join("away"), place.root.join("sub")).unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        for (_, open_folder) in WAYS.into_iter().cycle() {
            let checked = check_by(open_folder, &path, &place.roots, LIMIT);
            if let Ok(stored) = checked.and_then(|checked| super::store(&checked, &store)) {
                assert_ne!(fs::read(&stored.path).unwrap(), SECRET);
                store.forget(&stored).unwrap();
            }
            if done.load(Ordering::Relaxed) {
                break;
            }
        }
    });
}

#[test]
fn a_root_behind_a_link_is_known_by_both_names() {
    let place = Place::new();
    let alias = place.outside.join("alias");
    symlink(&place.root, &alias).unwrap();
    let place = Place {
        roots: Roots::new().and(&alias).unwrap(),
        ..place
    };
    place.write("a", 1);
    place.check(alias.join("a"), Ok(1));
    place.check(place.root.join("a"), Ok(1));
}

#[test]
fn the_innermost_root_decides() {
    let place = Place::new();
    symlink(&place.outside, place.root.join("more")).unwrap();
    place.check(place.root.join("more/secret"), Err(Refusal::Symlink));
    let place = Place {
        roots: place.roots.clone().and(&place.root.join("more")).unwrap(),
        ..place
    };
    place.check(place.root.join("more/secret"), Ok(SECRET.len() as u64));
}

#[test]
fn some_folders_cannot_be_roots() {
    let place = Place::new();
    let file = place.write("a", 1);
    let refused = |path: &Path| Roots::new().and(path).unwrap_err();
    assert!(matches!(refused(Path::new("a")), RootError::NotAbsolute(_)));
    assert!(matches!(
        refused(Path::new("/")),
        RootError::WholeFileSystem(_)
    ));
    assert!(matches!(
        refused(Path::new("/etc/..")),
        RootError::WholeFileSystem(_)
    ));
    assert!(matches!(
        refused(&place.root.join("nothing")),
        RootError::Open { .. }
    ));
    assert!(matches!(refused(&file), RootError::Open { .. }));
    assert_eq!(
        check(&file, &Roots::new(), LIMIT).unwrap_err(),
        Refusal::Outside
    );
}

#[test]
fn a_pinned_folder_may_come_later_and_follows_no_link_then() {
    let place = Place::new();
    let later = place.root.join("a/b");
    let pinned = Pinned::new(&later).unwrap();
    assert!(Roots::new().allow_pinned(&pinned).is_err());
    fs::create_dir_all(&later).unwrap();
    Roots::new().allow_pinned(&pinned).unwrap();
    fs::rename(place.root.join("a"), place.root.join("kept")).unwrap();
    symlink(place.root.join("kept"), place.root.join("a")).unwrap();
    assert!(Roots::new().allow_pinned(&pinned).is_err());
    assert!(Pinned::new(&place.root.join("nothing/../../outside")).is_err());
    assert!(matches!(
        Pinned::new(Path::new("a")),
        Err(RootError::NotAbsolute(_))
    ));
    assert!(matches!(
        Pinned::new(Path::new("/")),
        Err(RootError::WholeFileSystem(_))
    ));
    // A link that existed leads to its earlier target.
    assert_eq!(
        Pinned::new(&place.root.join("a/b")).unwrap().real(),
        place.root.join("kept/b")
    );
}

#[test]
fn a_stored_copy_is_private_whole_and_apart() {
    let place = Place::new();
    let store = place.store();
    let path = place.write("a.txt", 10);
    let stored = super::store(&check(&path, &place.roots, LIMIT).unwrap(), &store).unwrap();
    fs::write(&path, "changed afterwards").unwrap();
    assert_eq!(stored.size, 10);
    assert_eq!(fs::read(&stored.path).unwrap(), vec![b'x'; 10]);
    assert_eq!(stored.path.parent(), Some(store.path()));
    assert_eq!(
        fs::metadata(&stored.path).unwrap().permissions().mode() & 0o777,
        0o400
    );
    assert_eq!(
        fs::metadata(store.path()).unwrap().permissions().mode() & 0o777,
        0o700
    );
    store.forget(&stored).unwrap();
    store.forget(&stored).unwrap();
    assert!(!stored.path.exists());
    let gone = store.path().to_owned();
    store.remove().unwrap();
    assert!(!gone.exists());
}

#[test]
fn a_file_that_grows_after_the_check_is_refused_and_leaves_nothing() {
    let place = Place::new();
    let store = place.store();
    let path = place.write("a", 10);
    let checked = check(&path, &place.roots, 20).unwrap();
    place.write("a", 1_000_000);
    assert!(matches!(
        super::store(&checked, &store),
        Err(Refusal::TooLarge { limit: 20, .. })
    ));
    let checked = check(&place.write("b", 10), &place.roots, 20).unwrap();
    place.write("b", 11);
    assert_eq!(super::store(&checked, &store), Err(Refusal::Changed));
    assert_eq!(fs::read_dir(store.path()).unwrap().count(), 0);
}

#[test]
fn a_copy_is_of_one_version_however_often_the_file_is_written() {
    const SIZE: usize = 256 * 1024;
    let place = Place::new();
    let store = place.store();
    let path = place.write("a", SIZE);
    let most = u64::try_from(SIZE).unwrap();
    let stop = AtomicBool::new(false);
    let copied = std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
            for letter in (b'a'..=b'z').cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                std::os::unix::fs::FileExt::write_all_at(&file, &vec![letter; SIZE], 0).unwrap();
            }
        });
        let copies = (0..100).filter_map(|_| {
            let checked = check(&path, &place.roots, most).ok()?;
            super::store(&checked, &store).ok()
        });
        let copies: Vec<_> = copies.collect();
        stop.store(true, Ordering::Relaxed);
        copies
    });
    for copy in copied {
        let bytes = fs::read(copy.path).unwrap();
        assert!(
            bytes.iter().all(|byte| *byte == bytes[0]),
            "a copy has parts of two versions"
        );
    }
    // Unchanged, it is copied, however young it is.
    place.write("a", SIZE);
    let checked = check(&path, &place.roots, most).unwrap();
    assert_eq!(super::store(&checked, &store).unwrap().size, most);
}

#[test]
fn a_store_that_is_a_link_is_not_opened() {
    let place = Place::new();
    let link = place.outside.join("link");
    symlink(&place.root, &link).unwrap();
    assert!(StoreDir::open(&link).is_err());
}

fn exchange_in(parent: &Path) -> Exchange {
    Arc::new(Exchanges::named(parent)).make().unwrap()
}

#[test]
fn an_exchange_folder_is_private_and_new_whatever_lies_in_its_place() {
    let parent = TempDir::new().unwrap();
    let exchanges = Arc::new(Exchanges::named(&parent.path().join("new")));
    exchanges.prepare().unwrap();
    // An adapter that may write there has taken the names that come next.
    for name in 0..150 {
        fs::create_dir(parent.path().join("new").join(name.to_string())).unwrap();
    }
    let made = [exchanges.make().unwrap(), exchanges.make().unwrap()];
    assert_ne!(made[0].path(), made[1].path());
    for exchange in &made {
        assert_eq!(
            fs::metadata(exchange.path()).unwrap().permissions().mode() & 0o777,
            0o700
        );
        assert_eq!(fs::read_dir(exchange.path()).unwrap().count(), 0);
    }
    drop(made);
    assert_eq!(
        fs::read_dir(parent.path().join("new")).unwrap().count(),
        150
    );
}

#[test]
fn placed_files_get_names_of_their_own() {
    let place = Place::new();
    let exchange = exchange_in(&place.outside);
    assert_eq!(
        fs::metadata(exchange.path()).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let source = place.write("data.csv", 5);
    let placed = exchange
        .place(&source, Some("../../data.csv"), Announced::default(), LIMIT)
        .unwrap();
    assert_eq!(placed.path, exchange.path().join("data.csv"));
    assert_eq!((placed.file_name.as_str(), placed.size), ("data.csv", 5));
    let again = exchange
        .place(&source, None, Announced::default(), LIMIT)
        .unwrap();
    assert_eq!(again.path, exchange.path().join("data-2.csv"));
    assert_eq!(again.file_name, "data.csv");
    // A link that the adapter planted is stepped around, not followed.
    symlink(
        place.outside.join("secret"),
        exchange.path().join("data-3.csv"),
    )
    .unwrap();
    let third = exchange
        .place(&source, None, Announced::default(), LIMIT)
        .unwrap();
    assert_eq!(third.path, exchange.path().join("data-4.csv"));
    assert_eq!(fs::read(place.outside.join("secret")).unwrap(), SECRET);
    let folder = exchange.path();
    drop(exchange);
    assert!(!folder.exists());
}

#[test]
fn an_exchange_folder_of_any_depth_is_removed() {
    let parent = TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap());
    let exchange = exchange_in(parent.path());
    nest(&exchange.path(), 15_000);
    drop(exchange);
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_not_what_was_announced_is_refused_whole() {
    let place = Place::new();
    let store = place.store();
    let exchange = exchange_in(&place.outside);
    let path = place.write("a.txt", 3);
    let right = Announced {
        size: Some(3),
        sha256: Some(Sha256::digest(b"xxx")),
    };
    let taken = |announced| {
        let checked = check(&path, &place.roots, LIMIT)?.announced_as(announced)?;
        super::store(&checked, &store)
    };
    let stored = taken(right).unwrap();
    assert_eq!((stored.size, stored.sha256), (3, Sha256::digest(b"xxx")));
    let placed = exchange.place(&path, None, right, LIMIT).unwrap();
    assert_eq!((placed.size, placed.sha256), (3, Sha256::digest(b"xxx")));
    for (wrong, refusal) in [
        (
            Announced {
                size: Some(4),
                ..right
            },
            Refusal::OtherSize {
                size: 3,
                announced: 4,
            },
        ),
        (
            Announced {
                sha256: Some(Sha256::digest(b"xxy")),
                ..right
            },
            Refusal::OtherDigest,
        ),
        (
            Announced {
                size: None,
                sha256: Some(Sha256::digest(b"")),
            },
            Refusal::OtherDigest,
        ),
    ] {
        assert_eq!(taken(wrong), Err(refusal));
        assert_eq!(exchange.place(&path, None, wrong, LIMIT), Err(refusal));
    }
    assert_eq!(
        fs::read_dir(store.path()).unwrap().count(),
        1,
        "no refused copy stays"
    );
    assert_eq!(
        fs::read_dir(exchange.path()).unwrap().count(),
        1,
        "no refused copy stays"
    );
}

/// Folders in one another, without a path that grows.
fn nest(top: &Path, depth: usize) {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let mut at = rustix::fs::open(top, flags, Mode::empty()).unwrap();
    for _ in 0..depth {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
    }
}

#[test]
fn what_a_hub_places_is_checked_too() {
    let place = Place::new();
    let exchange = exchange_in(&place.outside);
    let refused = |path: &Path| {
        exchange
            .place(path, None, Announced::default(), LIMIT)
            .unwrap_err()
    };
    let fifo = place.root.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(refused(&fifo), Refusal::NotRegular);
    assert_eq!(refused(Path::new("/dev/zero")), Refusal::NotRegular);
    assert_eq!(refused(&place.root), Refusal::NotRegular);
    assert_eq!(refused(Path::new("a")), Refusal::NotAbsolute);
    assert_eq!(refused(&place.root.join("nothing")), Refusal::Missing);
    let big = place.write("big", LIMIT as usize + 1);
    assert_eq!(
        refused(&big),
        Refusal::TooLarge {
            size: LIMIT + 1,
            limit: LIMIT
        }
    );
    // A hub may name a link.
    symlink(place.write("a", 2), place.root.join("link")).unwrap();
    assert_eq!(
        exchange
            .place(&place.root.join("link"), None, Announced::default(), LIMIT)
            .unwrap()
            .size,
        2
    );
    assert_eq!(fs::read_dir(exchange.path()).unwrap().count(), 1);
    let folder = exchange.path();
    drop(exchange);
    assert!(!folder.exists());
}

#[test]
fn refusals_read_as_fragments() {
    assert_eq!(
        Refusal::TooLarge {
            size: 11,
            limit: 10
        }
        .to_string(),
        "the file has 11 bytes, more than the 10 allowed (`max_file_bytes`)"
    );
    assert_eq!(
        Refusal::Unreadable(std::io::ErrorKind::PermissionDenied).to_string(),
        "the file cannot be read: permission denied"
    );
}
