//! The words that distinguish failures.

use std::sync::LazyLock;

use regex::bytes::{RegexSet, RegexSetBuilder};
use trunkline_sdk::Category;

/// The first that is found decides: what is certain and ends a conversation first, what passes by itself last.
const TABLE: &[(Category, &[&str])] = &[
    (
        Category::ContextExhausted,
        &[
            r"prompt is too long",
            r"context[ _]?length[ _]?exceeded",
            r"context[ _]?window[ _]?(?:exceeded|exceeds|is full|overflow)",
            r"(?:exceeds?|exceeded|ran out of|larger than)[^\n]{0,40}context[ _](?:window|length|limit|size)",
            r"maximum context length",
            r"context[ _](?:overflow|limit (?:reached|exceeded))",
            r"too many (?:input )?tokens",
            r"input (?:is )?too long",
            r"input token count[^\n]{0,40}exceeds",
            r"request (?:entity )?too large",
            r"request_too_large",
            r"failed to read request body",
            r"invalid_request_error[^\n]{0,80}request body",
            r"too many images were provided",
            r"spawn e2big",
        ],
    ),
    (
        Category::MaxTurns,
        &[
            r"error_max_turns",
            r"\bmax_turns(?:_exhausted)?\b",
            r"\bturn_limit(?:_exhausted)?\b",
            r"reached (?:the )?max(?:imum)?(?: number of)?(?: session)? turns",
            r"max(?:imum)? session turns",
        ],
    ),
    (Category::SessionNotFound, UNKNOWN_SESSION),
    (
        Category::PermissionDenied,
        &[
            r"auto-rejected permission",
            r"permission (?:was |request )?(?:denied|rejected) by (?:the )?(?:user|host)",
        ],
    ),
    (
        Category::ToolLoop,
        &[r"^tool-loop:", r"loop detected", r"\bdoom_loop\b"],
    ),
    (
        Category::Auth,
        &[
            r"not logged in",
            r"(?:please|must|need to) (?:log|sign) ?in",
            r"please run [`'\x22]?(?:claude )?/?login",
            r"log ?in (?:is )?required",
            r"requires? login",
            r"authentication[ _](?:is )?(?:required|failed|error)",
            r"authentication_error",
            r"auth(?:entication)? required",
            r"failed to authenticate",
            r"credentials? (?:was|were) rejected",
            r"no authentication information found",
            r"no (?:llm )?provider configured",
            r"to authenticate, you can use",
            r"invalid auth method",
            r"invalid authentication credentials",
            r"(?:invalid|incorrect|missing|no|expired|revoked)[ _](?:x-)?api[ _-]?key",
            r"api[ _-]?key (?:is )?(?:not valid|invalid|missing|expired|required|not found|not set)",
            r"api_key_invalid",
            r"missing environment variable:? [`'\x22]?\w*(?:key|token)",
            r"(?:specify|set|provide|configure) [^\n]{0,40}(?:api[ _-]?key|auth_?token|auth method|credentials)",
            r"failed to refresh (?:the )?token",
            r"refresh_?token[^\n]{0,40}(?:reused|expired|invalid)",
            r"invalid '?refresh_token",
            r"(?:oauth|access|security|bearer|github|auth|sso|login)[ _-]?token[^\n]{0,40}(?:expired|invalid|revoked)",
            r"(?:invalid|expired|bad) (?:bearer |access |oauth |security |github )?(?:token|credentials)",
            r"expired ?token",
            r"(?:login|sign[ -]?in|credentials?)(?: has| have| is| are)? expired",
            r"credentialsprovidererror",
            r"unable to locate credentials",
            r"invalidsignatureexception",
            r"unrecognizedclientexception",
            r"accessdeniedexception",
            r"not authorized to perform",
            r"\bunauthorized\b",
            r"\bunauthenticated\b",
        ],
    ),
    (
        Category::UsageLimit,
        &[
            r"hit your (?:[\w'-]+ ){0,4}limit",
            r"usage[ _-]?limit",
            r"usage cap reached",
            r"\b(?:5-hour|five-hour|hourly|daily|weekly|monthly|opus|sonnet|session) limit (?:reached|exceeded|hit)",
            r"out of (?:extra usage|credits)",
            r"refill in order to continue",
            r"workspace owner to refill",
            r"upgrade to (?:pro|plus|max)\b",
            r"insufficient_quota",
            r"exceeded your current quota",
            r"quota (?:exceeded|exhausted|reached|will reset)",
            r"(?:exhausted|exceeded|used up) (?:your|the) [^\n]{0,40}quota",
            r"(?:terminal|daily)quota",
            r"servicequotaexceeded",
            r"error_max_budget_usd",
            r"budget_exhausted",
            r"budget[ _]?exceeded",
            r"(?:maximum|max) budget",
            r"premium requests? (?:allowance|limit|quota)",
        ],
    ),
    (
        Category::Billing,
        &[
            r"billing[ _](?:error|issue|problem|details|hard limit|not active)",
            r"billing_hard_limit",
            r"payment (?:is )?required",
            r"credit balance is too low",
            r"insufficient (?:funds|credits?|balance)",
            r"(?:requires|add) more credits",
            r"subscription (?:has )?(?:expired|lapsed|required|is not active)",
            r"account[^\n]{0,30}(?:suspended|deactivated)",
        ],
    ),
    (
        Category::RateLimit,
        &[
            r"\brate[ _-]?limit(?:ed|[ _-]?(?:error|exceeded|reached|hit|exhausted))?\b",
            r"\brate limits (?:exceeded|reached)",
            r"too ?many ?requests",
            r"throttlingexception",
            r"\bthrottled\b",
            r"rate exceeded",
            r"resource_exhausted",
            r"resource has been exhausted",
        ],
    ),
    (
        Category::Overloaded,
        &[
            r"overloaded",
            r"(?:high|heavy) (?:demand|load)",
            r"temporarily unavailable",
            r"(?:service|server|model) (?:is )?(?:currently )?unavailable",
            r"at capacity",
            r"no capacity available",
            r"(?:flex|capacity)[ _]?unavailable",
            r"modelnotreadyexception",
        ],
    ),
    (
        Category::ModelNotFound,
        &[
            r"model[ _]?not[ _]?found",
            r"(?:unknown|no such|invalid|unsupported)[ _]model\b",
            r"not_found_error[^\n]{0,60}model",
            r"\bmodel\b[ :]*[`'\x22]?[\w./:@-]{0,100}[`'\x22]? (?:is |was |does |could )?not (?:be )?(?:found|exist|supported|available)",
            r"issue with the selected model",
            r"models/[\w./:@-]{1,100} is not found",
            r"resourcenotfoundexception",
            r"validationexception[^\n]{0,120}model",
        ],
    ),
    (
        Category::Timeout,
        &[
            r"timed[ -]?out",
            r"\be?timedout\b",
            r"(?:request|connection|gateway|read|idle|stream) timeout",
            r"deadline[ _]exceeded",
            r"modeltimeoutexception",
            r"timeouterror",
        ],
    ),
    // What a launcher says of the program that it has started.
    (Category::ProcessExit, &[r"was terminated by signal"]),
    (
        Category::NotInstalled,
        &[r"spawn \S{1,200} enoent", r"no platform package"],
    ),
];

/// How agents say that they know no such session.
const UNKNOWN_SESSION: &[&str] = &[
    r"no conversation found with session id",
    r"--resume requires a valid session id",
    r"does not match any session title",
    r"unknown (?:session|thread|conversation)",
    r"(?:session|thread|conversation|resume|checkpoint)s?(?: with)?(?: (?:session )?id)?(?:[\s:]{1,2}[^\s]{1,120})?[\s:]{1,2}(?:was |could )?not (?:be )?found",
    r"(?:missing|no) rollout (?:path )?(?:found )?for thread",
    r"state db missing rollout path",
    r"(?:not a valid|is not a) uuid",
    r"resource not found:[^\n]{0,200}session",
    r"^resource not found\W*$",
    r"\bnotfounderror\b",
    r"no such session",
    r"no session(?:s)?(?: was| were)? found",
    r"no session, task,? or name matched",
    r"invalid session id(?:entifier)?\b",
    r"to resume by session or task id",
    r"(?:cannot|failed to|could not|unable to) resume",
];

/// The category of the first entry of the table that is found.
pub(super) fn by_words(text: &str) -> Option<Category> {
    static WORDS: LazyLock<RegexSet> = LazyLock::new(|| {
        set(TABLE
            .iter()
            .flat_map(|(_, patterns)| patterns.iter().copied()))
    });
    let first = WORDS.matches(text.as_bytes()).iter().next()?;
    let mut passed = 0;
    TABLE.iter().find_map(|(category, patterns)| {
        passed += patterns.len();
        (first < passed).then_some(*category)
    })
}

/// Whether one of [`UNKNOWN_SESSION`] is found.
pub(super) fn is_unknown_session(text: &str) -> bool {
    static WORDS: LazyLock<RegexSet> = LazyLock::new(|| set(UNKNOWN_SESSION.iter().copied()));
    WORDS.is_match(text.as_bytes())
}

/// All words are ASCII, so bytes are compared: the automaton is a fraction of that for Unicode.
fn set(patterns: impl Iterator<Item = &'static str>) -> RegexSet {
    #[expect(
        clippy::expect_used,
        reason = "a constant table, compiled in every test"
    )]
    RegexSetBuilder::new(patterns)
        .unicode(false)
        .case_insensitive(true)
        .multi_line(true)
        .build()
        .expect("a constant table")
}
