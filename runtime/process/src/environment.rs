//! The environment of a child, computed from the host's ([process.6]).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Names the file that holds the child's configuration ([process.7]).
pub(crate) const ADAPTER_CONFIG: &str = "ADAPTER_CONFIG";

/// Names the child's private temporary folder ([process.6]).
pub(crate) const TMPDIR: &str = "TMPDIR";

/// Prefix of variables that are for the program and not for the init before it.
const SHIELD: &str = "TRUNKLINE_FOR_PROGRAM_";

/// Inherited by every child, beside `LC_*`.
const CURATED: [&str; 7] = ["HOME", "PATH", "TERM", "LANG", "USER", "LOGNAME", "SHELL"];

/// The terminal of a child whose host has none: programs that ask for one read this.
const DEFAULT_TERM: &str = "xterm-256color";

/// Beginnings of names that load code: the loaders of Linux and macOS, functions that bash takes
/// over, Lua's paths, .NET's profilers.
const CODE_FAMILIES: [&[u8]; 7] = [
    b"LD_",
    b"DYLD_",
    b"BASH_FUNC_",
    b"LUA_INIT",
    b"LUA_PATH",
    b"LUA_CPATH",
    b"CORECLR_PROFILER",
];

/// Names that load code, by what reads them.
const CODE: [&[u8]; 39] = [
    // The C library and OpenSSL: modules.
    b"GCONV_PATH",
    b"OPENSSL_CONF",
    b"OPENSSL_ENGINES",
    b"OPENSSL_MODULES",
    // Shells: files that are read first, options and prompts that are evaluated.
    b"BASH_ENV",
    b"BASHOPTS",
    b"ENV",
    b"FPATH",
    b"PS4",
    b"SHELLOPTS",
    b"ZDOTDIR",
    // Node and Bun.
    b"BUN_OPTIONS",
    b"NODE_OPTIONS",
    b"NODE_PATH",
    // Python.
    b"PYTHONBREAKPOINT",
    b"PYTHONHOME",
    b"PYTHONINSPECT",
    b"PYTHONPATH",
    b"PYTHONPLATLIBDIR",
    b"PYTHONSTARTUP",
    b"PYTHONUSERBASE",
    // Perl.
    b"PERL5DB",
    b"PERL5LIB",
    b"PERL5OPT",
    b"PERLLIB",
    // Ruby.
    b"GEM_HOME",
    b"GEM_PATH",
    b"RUBYLIB",
    b"RUBYOPT",
    // Java.
    b"CLASSPATH",
    b"JAVA_TOOL_OPTIONS",
    b"JDK_JAVA_OPTIONS",
    b"_JAVA_OPTIONS",
    // PHP, Erlang, R, .NET.
    b"DOTNET_STARTUP_HOOKS",
    b"ERL_FLAGS",
    b"ERL_LIBS",
    b"PHPRC",
    b"PHP_INI_SCAN_DIR",
    b"R_PROFILE_USER",
];

/// Part of the host's environment that a child inherits ([process.6]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Inherit {
    /// `HOME`, `PATH`, `TERM`, `LANG`, `LC_*`, `USER`, `LOGNAME` and `SHELL`; nothing else.
    #[default]
    Curated,
    /// Everything but the variables that load code into a program; see
    /// [`child_environment`].
    All,
}

/// A child's environment, and what of the host's was kept from it.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Environment {
    /// Every variable of the child.
    pub variables: BTreeMap<OsString, OsString>,
    /// Names that [`Inherit::All`] would have passed on, but that [load code](loads_code) into a
    /// program: they count only when declared. Worth a line to the operator.
    pub withheld: Vec<OsString>,
}

/// Computes the environment of a child. Later sources win: the host's, by `inherit`; `private`,
/// made for this process only (`TMPDIR`, `ADAPTER_CONFIG`); `declared` by the configuration.
/// Without a `TERM` in these it is `xterm-256color`.
///
/// The host's own `ADAPTER_CONFIG` is never passed on: it was meant for the host.
pub fn child_environment(
    host: impl IntoIterator<Item = (OsString, OsString)>,
    inherit: Inherit,
    private: impl IntoIterator<Item = (OsString, OsString)>,
    declared: &BTreeMap<OsString, OsString>,
) -> Environment {
    let mut environment = Environment::default();
    for (name, value) in host {
        let wanted = match inherit {
            Inherit::Curated => is_curated(&name),
            Inherit::All => name != ADAPTER_CONFIG,
        };
        if !wanted {
            continue;
        }
        if loads_code(&name) {
            if !declared.contains_key(&name) {
                environment.withheld.push(name);
            }
            continue;
        }
        environment.variables.insert(name, value);
    }
    environment.variables.extend(private);
    environment.variables.extend(
        declared
            .iter()
            .map(|(name, value)| (name.clone(), value.clone())),
    );
    environment
        .variables
        .entry("TERM".into())
        .or_insert_with(|| DEFAULT_TERM.into());
    environment.withheld.sort();
    environment
}

/// Returns the problem of a variable with this `name` and `value`, if there is one.
pub(crate) fn problem(name: &OsStr, value: &OsStr) -> Option<&'static str> {
    let name = name.as_bytes();
    if name.is_empty() {
        Some("its name is empty")
    } else if name.contains(&b'=') {
        Some("its name contains `=`")
    } else if name.contains(&0) || value.as_bytes().contains(&0) {
        Some("it contains a zero byte")
    } else {
        None
    }
}

fn is_curated(name: &OsStr) -> bool {
    CURATED.iter().any(|curated| name == *curated) || name.as_bytes().starts_with(b"LC_")
}

/// Returns true if a variable makes a program run code *inside itself* that neither the program nor
/// its arguments name: it changes the search path of the loader or an interpreter, or names
/// something to load first. The host's variables of this kind were not meant for an adapter.
///
/// Variables that name a program to *start* (`EDITOR`, `PAGER`, `GIT_SSH_COMMAND`) are not among
/// them: such a program is a process of its own, contained like any other.
#[must_use]
pub fn loads_code(name: &OsStr) -> bool {
    let name = name.as_bytes();
    CODE_FAMILIES.iter().any(|family| name.starts_with(family)) || CODE.contains(&name)
}

/// Returns true if a variable makes the loader or the C library of any program load code or data.
#[must_use]
pub fn loads_natively(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b"LD_")
        || [
            &b"GLIBC_TUNABLES"[..],
            b"GCONV_PATH",
            b"LOCPATH",
            b"NLSPATH",
        ]
        .contains(&name)
}

/// Under what name a variable passes through an init to its program: one that would have code
/// loaded into the init itself is shielded.
pub(crate) fn shielded(name: &OsStr) -> OsString {
    if !loads_natively(name) {
        return name.to_owned();
    }
    let mut shielded = OsString::from(SHIELD);
    shielded.push(name);
    shielded
}

/// The name that a shielded variable has for the program.
pub(crate) fn unshielded(name: &OsStr) -> Option<&OsStr> {
    name.as_bytes()
        .strip_prefix(SHIELD.as_bytes())
        .map(OsStr::from_bytes)
}

impl std::fmt::Debug for Environment {
    /// Names only: values may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("withheld", &self.withheld)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs = &'static [(&'static str, &'static str)];

    struct Case {
        says: &'static str,
        host: Pairs,
        inherit: Inherit,
        private: Pairs,
        declared: Pairs,
        child: Pairs,
        withheld: &'static [&'static str],
    }

    const PLAIN: Case = Case {
        says: "an empty host gives a terminal's name alone",
        host: &[],
        inherit: Inherit::Curated,
        private: &[],
        declared: &[],
        child: &[],
        withheld: &[],
    };

    const CASES: &[Case] = &[
        PLAIN,
        Case {
            says: "the curated list and nothing else is inherited",
            host: &[
                ("HOME", "/h"),
                ("PATH", "/bin"),
                ("TERM", "xterm"),
                ("LANG", "C"),
                ("LC_ALL", "C"),
                ("LC_TIME", "de"),
                ("USER", "u"),
                ("LOGNAME", "l"),
                ("SHELL", "/bin/sh"),
                ("LANGUAGE", "en"),
                ("LCX", "no"),
                ("HOMEBREW", "no"),
                ("API_KEY", "secret"),
                ("TMPDIR", "/host/tmp"),
                ("LD_PRELOAD", "x.so"),
                ("NODE_OPTIONS", "--require x"),
            ],
            child: &[
                ("HOME", "/h"),
                ("LANG", "C"),
                ("LC_ALL", "C"),
                ("LC_TIME", "de"),
                ("LOGNAME", "l"),
                ("PATH", "/bin"),
                ("SHELL", "/bin/sh"),
                ("TERM", "xterm"),
                ("USER", "u"),
            ],
            ..PLAIN
        },
        Case {
            says: "private variables are given, and declared ones win over all",
            host: &[("PATH", "/bin"), ("TERM", "xterm")],
            private: &[("TMPDIR", "/p/tmp"), ("ADAPTER_CONFIG", "/p/config.json")],
            declared: &[("PATH", "/opt/bin"), ("API_KEY", "k"), ("EMPTY", "")],
            child: &[
                ("ADAPTER_CONFIG", "/p/config.json"),
                ("API_KEY", "k"),
                ("EMPTY", ""),
                ("PATH", "/opt/bin"),
                ("TERM", "xterm"),
                ("TMPDIR", "/p/tmp"),
            ],
            ..PLAIN
        },
        Case {
            says: "a declared TMPDIR is the operator's will",
            private: &[("TMPDIR", "/p/tmp")],
            declared: &[("TMPDIR", "/big/disk")],
            child: &[("TMPDIR", "/big/disk")],
            ..PLAIN
        },
        Case {
            says: "all means all but what loads code, which is reported, and the host's own configuration",
            host: &[
                ("API_KEY", "k"),
                ("TMPDIR", "/host/tmp"),
                ("NODE_OPTIONS", "--require x"),
                ("LD_PRELOAD", "x.so"),
                ("DYLD_INSERT_LIBRARIES", "x"),
                ("ADAPTER_CONFIG", "/host/config.json"),
            ],
            inherit: Inherit::All,
            private: &[("TMPDIR", "/p/tmp")],
            child: &[("API_KEY", "k"), ("TMPDIR", "/p/tmp")],
            withheld: &["DYLD_INSERT_LIBRARIES", "LD_PRELOAD", "NODE_OPTIONS"],
            ..PLAIN
        },
        Case {
            says: "what loads code passes when it is declared, with the declared value",
            host: &[("LD_LIBRARY_PATH", "/host"), ("NODE_OPTIONS", "--host")],
            inherit: Inherit::All,
            declared: &[("LD_LIBRARY_PATH", "/declared")],
            child: &[("LD_LIBRARY_PATH", "/declared")],
            withheld: &["NODE_OPTIONS"],
            ..PLAIN
        },
    ];

    fn map(pairs: Pairs) -> BTreeMap<OsString, OsString> {
        pairs
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    #[test]
    fn the_environment_is_the_list_and_what_was_declared() {
        for case in CASES {
            let made = child_environment(
                map(case.host),
                case.inherit,
                map(case.private),
                &map(case.declared),
            );
            let mut child = map(case.child);
            child
                .entry("TERM".into())
                .or_insert_with(|| "xterm-256color".into());
            assert_eq!(made.variables, child, "{}", case.says);
            assert_eq!(made.withheld, case.withheld, "{}", case.says);
        }
    }

    #[test]
    fn what_loads_code_is_told_from_what_starts_programs() {
        for name in [
            "LD_PRELOAD",
            "LD_AUDIT",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "ENV",
            "BASH_FUNC_ls%%",
            "NODE_OPTIONS",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "LUA_INIT_5_4",
        ] {
            assert!(loads_code(name.as_ref()), "{name}");
        }
        for name in [
            "EDITOR",
            "PAGER",
            "GIT_SSH_COMMAND",
            "PATH",
            "HOME",
            "PYTHONUNBUFFERED",
            "ENVIRONMENT",
            "OLD_PS4",
            "LDFLAGS",
        ] {
            assert!(!loads_code(name.as_ref()), "{name}");
        }
        assert!(CURATED.iter().all(|name| !loads_code(name.as_ref())));
    }

    #[test]
    fn a_name_that_no_environment_can_hold_is_a_problem() {
        let problem = |name: &str, value: &str| problem(name.as_ref(), value.as_ref()).is_some();
        assert!(problem("", "x"));
        assert!(problem("A=B", "x"));
        assert!(problem("A\0", "x"));
        assert!(problem("A", "x\0"));
        assert!(!problem("A", "x=y"));
    }

    #[test]
    fn debug_text_shows_no_values() {
        let made = child_environment([], Inherit::All, [], &map(&[("API_KEY", "hush")]));
        assert!(!format!("{made:?}").contains("hush"));
    }
}
