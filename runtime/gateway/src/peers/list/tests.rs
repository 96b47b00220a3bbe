use super::*;

/// Host with sessions, by the times at which they were active.
#[derive(Clone)]
struct HostActivity(Vec<u64>);

impl HostActivity {
    /// Returns a page of at most `most` sessions, as a journal does that examines `looked_at`
    /// sessions. With `is_rare`, every second session does not match.
    fn page(
        &self,
        host: &str,
        cursor: Option<&str>,
        most: usize,
        looked_at: usize,
        is_rare: bool,
    ) -> SessionPage {
        let behind = cursor.map(|cursor| {
            let (time, key) = cursor.split_once('-').unwrap();
            (
                u64::from_str_radix(time, 16).unwrap(),
                u64::from_str_radix(key, 16).unwrap(),
            )
        });
        let mut all: Vec<_> = self
            .0
            .iter()
            .enumerate()
            .map(|(key, time)| (*time, key as u64))
            .collect();
        all.sort_by_key(|at| Reverse(*at));
        all.retain(|at| behind.is_none_or(|behind| *at < behind));
        let mut page = SessionPage::default();
        let mut last = cursor.map(str::to_owned);
        for (looked, (time, key)) in all.into_iter().enumerate() {
            if looked == looked_at || page.sessions.len() == most {
                page.next = last;
                return page;
            }
            let at = format!("{time:x}-{key:x}");
            if !is_rare || key % 2 == 0 {
                page.sessions
                    .push(json!({ "session_id": format!("{host}{key}@{time}") }));
                page.cursors.get_or_insert_default().push(at.clone());
            }
            last = Some(at);
        }
        page
    }
}

/// Reads all pages of a list. The host `late` does not respond at first.
fn read(
    hosts: &BTreeMap<String, HostActivity>,
    limit: usize,
    looked_at: usize,
    is_rare: bool,
    late: Option<&str>,
) -> Vec<String> {
    let mut ids = Vec::new();
    let mut from = MergedCursor::default();
    let mut is_late = late.is_some();
    for _ in 0..10_000 {
        let page = |(host, has): (&String, &HostActivity)| {
            let answers = !(is_late && late == Some(host));
            let cursor = from.position_of(host);
            (
                host.clone(),
                answers.then(|| has.page(host, cursor.as_deref(), limit, looked_at, is_rare)),
            )
        };
        let merged = merge_pages(&from, hosts.iter().map(page).collect(), limit);
        assert_eq!(merged.missing.is_empty(), !is_late);
        assert!(merged.sessions.len() <= limit);
        is_late = false;
        ids.extend(
            merged
                .sessions
                .into_iter()
                .map(|one| one["session_id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = merged.next else { return ids };
        from = MergedCursor::parse(&next).unwrap();
        assert_eq!(from.to_text(), next);
    }
    panic!("the list has no end: {ids:?}");
}

fn time(id: &str) -> u64 {
    id.split_once('@').unwrap().1.parse().unwrap()
}

#[test]
fn pages_of_several_hosts_have_each_session_once_and_in_order() {
    // Times that several have, hosts that have none, and one that has all that is old.
    let hosts: BTreeMap<String, HostActivity> = [
        ("a", (0..400).map(|n| 1000 + n * 7 % 300).collect()),
        ("b", (0..300).map(|n| 1000 + n / 3).collect()),
        ("c.1~x", vec![1000; 50]),
        ("d", Vec::new()),
        ("e", (0..250).collect()),
    ]
    .map(|(host, times): (&str, Vec<u64>)| (host.to_owned(), HostActivity(times)))
    .into();
    for (limit, looked_at) in [
        (1, 2000),
        (3, 2),
        (7, 2000),
        (50, 20),
        (1000, 2000),
        (1000, 10),
    ] {
        for is_rare in [false, true] {
            let mut all: Vec<String> = Vec::new();
            for (host, has) in &hosts {
                let whole = has.page(host, None, usize::MAX, usize::MAX, is_rare);
                all.extend(
                    whole
                        .sessions
                        .into_iter()
                        .map(|one| one["session_id"].as_str().unwrap().to_owned()),
                );
            }
            all.sort();
            let ids = read(&hosts, limit, looked_at, is_rare, None);
            assert!(
                ids.is_sorted_by_key(|id| Reverse(time(id))),
                "{limit} {looked_at} {is_rare}"
            );
            let mut sorted = ids.clone();
            sorted.sort();
            assert_eq!(sorted, all, "{limit} {looked_at} {is_rare}");
            // The sessions of a late host are listed later, and none is listed twice.
            for late in ["a", "e"] {
                let mut ids = read(&hosts, limit, looked_at, is_rare, Some(late));
                ids.sort();
                let is_over_at_once = ids.len() < all.len();
                assert!(
                    !is_over_at_once || limit == 1000,
                    "{late} {limit} {looked_at}"
                );
                assert!(ids.windows(2).all(|two| two[0] != two[1]));
            }
        }
    }
}

#[test]
fn a_page_of_all_hosts_fits_into_a_line() {
    let long = |host: &str| {
        let one = |n: u32| json!({ "session_id": format!("{host}{n}"), "cwd": "x".repeat(4000) });
        let cursors = (0..200).map(|n| format!("{:x}-1", 1000 - n)).collect();
        SessionPage {
            sessions: (0..200).map(one).collect(),
            next: None,
            cursors: Some(cursors),
            missing: Vec::new(),
        }
    };
    let hosts = ["a", "b"]
        .map(|host| (host.to_owned(), Some(long(host))))
        .into();
    let merged = merge_pages(&MergedCursor::default(), hosts, 1000);
    let bytes = json!(merged).to_string().len();
    assert!(
        (MAX_PAGE_BYTES - 8192..1024 * 1024).contains(&bytes),
        "{bytes}"
    );
    assert!(merged.next.is_some() && merged.sessions.len() < 400);
    // One that is longer than all is a page of its own.
    let one = json!({ "session_id": "long", "cwd": "x".repeat(MAX_PAGE_BYTES) });
    let page = SessionPage {
        sessions: vec![one],
        next: None,
        cursors: Some(vec!["1-1".to_owned()]),
        missing: Vec::new(),
    };
    let merged = merge_pages(
        &MergedCursor::default(),
        [("a".to_owned(), Some(page))].into(),
        1000,
    );
    assert_eq!((merged.sessions.len(), merged.next), (1, None));
}

#[test]
fn a_cursor_that_no_answer_gave_is_none() {
    for cursor in [
        "x", "1~", "1~61", "1~6.1-1", "1~zz.1-1", "1~61.1", "1-1", "~61.1-1~",
    ] {
        assert_eq!(MergedCursor::parse(cursor), None, "{cursor}");
    }
    assert_eq!(MergedCursor::parse(""), Some(MergedCursor::default()));
}
