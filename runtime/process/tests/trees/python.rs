//! The Python interpreter of the tests.

/// Python itself: the name in `PATH` may be a script that needs more than a sandbox grants.
pub(crate) struct Python {
    pub(crate) program: String,
    pub(crate) prefix: String,
}

impl Python {
    pub(crate) fn find() -> Self {
        let ask = "import sys; print(sys.executable); print(sys.base_prefix)";
        let told = std::process::Command::new("python3")
            .args(["-c", ask])
            .output()
            .unwrap()
            .stdout;
        let told = String::from_utf8(told).unwrap();
        let (program, prefix) = told.trim().split_once('\n').unwrap();
        Self {
            program: program.to_owned(),
            prefix: prefix.to_owned(),
        }
    }
}
