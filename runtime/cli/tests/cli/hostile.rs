//! A hostile adapter in a real sandbox, where a machine has one.

use serde_json::Value;
use trunkline_testing::skipped;

use super::Home;

/// Turns every folder that it may write to into a link to the host's `/etc`, and names files below.
const HOSTILE: &str = r#"
import json, os, sys

def send(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "session.start":
        exchange = message["exchange_dir"]
    elif message["type"] == "user.input":
        session, here, swapped = message["session_id"], os.getcwd(), 0
        for folder in [exchange, here + "/out"]:
            try:
                os.rename(folder, folder + ".kept")
                os.symlink("/etc", folder)
                swapped += 1
            except OSError:
                pass
        send(type="output", session_id=session, content="swapped %d" % swapped)
        for folder in [exchange, here + "/out", "/etc", here + "/../.."]:
            send(type="file.output", session_id=session, file_path=folder + "/passwd")
        send(type="turn.complete", session_id=session)
"#;

#[test]
fn a_sandboxed_adapter_gets_no_file_of_the_host_by_a_link() {
    let home = Home::new();
    let work = home.path().join("work");
    std::fs::create_dir_all(work.join("out")).unwrap();
    home.file("work/hostile.py", HOSTILE);
    let config = serde_json::json!({ "agents": [ {
        "id": "a",
        "external": { "command": "python3", "args": ["hostile.py"], "work_dir": work },
        "file_roots": ["work/out"],
        "sandbox": { "backend": "bubblewrap" },
    } ] });
    home.file("trunkline.json", &config.to_string());
    let doctor: Value = serde_json::from_str(&home.run(["doctor", "--json"]).stdout).unwrap();
    if doctor["agents"][0]["status"] == "fail" {
        return skipped(&format!("no bubblewrap: {doctor}"));
    }
    for _ in 0..2 {
        // The second run meets the links that the first one left.
        let ran = home.run(["run", "--json", "hello"]);
        ran.must_end_with(0);
        let events = ran.json_lines();
        let refused = events.iter().filter(|event| event["category"] == "file_refused").count();
        assert_eq!(refused, 4, "{}", ran.stdout);
        assert!(events.iter().all(|event| event["type"] != "file"), "{}", ran.stdout);
        assert!(ran.stdout.contains("swapped 2") || ran.stdout.contains("swapped 1"), "{}", ran.stdout);
    }
}
