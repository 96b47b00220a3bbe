//! The broken adapters: each is the reference but for one mistake that real programs make.

/// Makes the enum, its names and its sentences from one table.
macro_rules! mutants {
    ($($(#[doc = $bug:literal])+ $mutant:ident = $name:literal,)*) => {
        /// A mistake.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Mutant {
            $($(#[doc = $bug])+ $mutant,)*
        }

        impl Mutant {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$mutant,)*];

            /// The name on the command line.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$mutant => $name,)*
                }
            }

            /// What is wrong with it, in one sentence.
            pub(crate) const fn bug(self) -> &'static str {
                match self {
                    $(Self::$mutant => concat!($($bug),+).trim_ascii(),)*
                }
            }
        }
    };
}

mutants! {
    /// Spreads each message over several lines.
    PrettyPrint = "pretty-print",
    /// Ends its lines with CR and LF.
    CrlfOutput = "crlf-output",
    /// Begins its output with a byte order mark.
    BomOutput = "bom-output",
    /// Ends lines at U+2028, U+2029 and U+0085 as well.
    SplitAtUnicode = "split-at-unicode",
    /// Writes U+2028 and U+2029 unescaped.
    RawSeparators = "raw-separators",
    /// Takes lines that end in CR and LF for noise.
    CrIsNoise = "cr-is-noise",
    /// Parses blank lines, and its parser's failure ends it.
    BlankLineExits = "blank-line-exits",
    /// Does not skip a leading byte order mark.
    BomIsData = "bom-is-data",
    /// Takes each read for whole lines.
    ReadIsLine = "read-is-line",
    /// Decodes each read by itself, so characters across two become U+FFFD.
    DecodePerChunk = "decode-per-chunk",
    /// Looks at the first line of each read only.
    OneLinePerRead = "one-line-per-read",
    /// Skips lines over 4 MiB.
    Limit4M = "limit-4m",
    /// Skips lines over 64 KiB.
    Limit64K = "limit-64k",
    /// Accepts one byte less than 1 MiB.
    LimitBelow1M = "limit-below-1m",
    /// Cuts inputs at 65,535 characters.
    TruncatesContent = "truncates-content",
    /// Ends at a line over its limit.
    ExitOnLongLine = "exit-on-long-line",
    /// Ends with a failure where its input ends within a line.
    CutLineExits = "cut-line-exits",
    /// Ends at the first line that is no JSON object.
    NoiseExits = "noise-exits",
    /// Answers noise with an error message.
    NoiseAnswered = "noise-answered",
    /// Stops the running turns when it reads noise.
    NoiseStopsTurns = "noise-stops-turns",
    /// Ends at a line that is not UTF-8.
    BadUtf8Exits = "bad-utf8-exits",
    /// Leaves its output in an 8 KiB buffer.
    BufferedStdout = "buffered-stdout",
    /// Flushes at the end of a turn only.
    FlushAtTurnEnd = "flush-at-turn-end",
    /// Writes long messages in pieces, from many threads, without a lock.
    UnlockedWrites = "unlocked-writes",
    /// Prints a banner to stdout.
    Banner = "banner",
    /// Says goodbye on stdout.
    LastWordsOnStdout = "last-words-on-stdout",
    /// Takes U+0000 for the end of a text.
    StopsAtNul = "stops-at-nul",
    /// Ends at an unpaired surrogate escape.
    SurrogateExits = "surrogate-exits",
    /// Parses the whole line, and ends where it is nested too deep.
    DeepLineExits = "deep-line-exits",
    /// Writes content as a list of parts.
    ContentInParts = "content-in-parts",
    /// Leaves empty content out of its outputs.
    EmptyContentLeftOut = "empty-content-left-out",
    /// Forgets the session id of its ends.
    CompleteWithoutSession = "complete-without-session",
    /// Keeps 32 characters of an id.
    TruncatesIds = "truncates-ids",
    /// Answers under ids that are tidied up.
    NormalisesIds = "normalises-ids",
    /// Trims ids.
    TrimsIds = "trims-ids",
    /// Folds the case of ids.
    CaseFolded = "case-folded",
    /// Ends at a type that it does not know.
    UnknownTypeExits = "unknown-type-exits",
    /// Refuses messages with fields that it does not know.
    UnknownFieldsRefused = "unknown-fields-refused",
    /// Knows a message by its first bytes.
    TypeMustBeFirst = "type-must-be-first",
    /// Ends at a message without a required field.
    BadMessageExits = "bad-message-exits",
    /// Answers a bad message with an error message.
    BadMessageAnswered = "bad-message-answered",
    /// Drops an input without content.
    AbsentContentDropped = "absent-content-dropped",
    /// Runs a turn for content that is no text.
    WrongContentIsTurn = "wrong-content-is-turn",
    /// Forgets all sessions when one is opened.
    OneSession = "one-session",
    /// Writes every output under the session that was opened last.
    NewestSessionAnswers = "newest-session-answers",
    /// Keeps one set of variables for all sessions.
    SharedValues = "shared-values",
    /// Overtakes within a session when several messages wait.
    Reorders = "reorders",
    /// Opens a session at its first input.
    UnknownServed = "unknown-served",
    /// Lets the turn of a closed session run on.
    SpeaksAfterClose = "speaks-after-close",
    /// Ends the running turn at session.close.
    CloseCompletesRunning = "close-completes-running",
    /// Goes on serving closed sessions.
    ClosedServed = "closed-served",
    /// Opens a session anew at a second session.start, and drops what ran.
    SecondStartOpens = "second-start-opens",
    /// Ends at a second session.close.
    SecondCloseExits = "second-close-exits",
    /// Keeps the variables of a closed session for the next of its id.
    ReusedIdRemembers = "reused-id-remembers",
    /// Stops the turns of every session when one is closed.
    CloseStopsAll = "close-stops-all",
    /// Ends when its last session is closed.
    ExitsWithLastSession = "exits-with-last-session",
    /// Ends a turn at session.close that nobody began.
    CloseCompletesIdle = "close-completes-idle",
    /// Ends each turn again after 150 ms.
    LateDouble = "late-double",
    /// Ends each turn twice.
    DoubleEnd = "double-end",
    /// Loses the fourth input of a session.
    FourthInputLost = "fourth-input-lost",
    /// Writes an output after the end of each turn.
    OutputAfterEnd = "output-after-end",
    /// Skips empty inputs.
    EmptyInputSkipped = "empty-input-skipped",
    /// Skips inputs of white space alone.
    BlankInputSkipped = "blank-input-skipped",
    /// Takes inputs that begin with a slash for commands of its own.
    CommandsSwallowed = "commands-swallowed",
    /// Does not end a turn that fails.
    FailureWithoutEnd = "failure-without-end",
    /// Ends the process when a turn fails.
    FailureExits = "failure-exits",
    /// Drops inputs that arrive during a turn.
    OverlapLost = "overlap-lost",
    /// Sends turn.complete each second as a sign of life.
    IdleCompletes = "idle-completes",
    /// Does not end a turn that had no output.
    SilentTurnWithoutEnd = "silent-turn-without-end",
    /// Loses every hundredth turn.complete.
    HundredthEndLost = "hundredth-end-lost",
    /// Ignores stop.
    StopIgnored = "stop-ignored",
    /// Stops a turn without its turn.complete.
    StopWithoutEnd = "stop-without-end",
    /// Ignores the inputs of a session that was stopped.
    StopEndsService = "stop-ends-service",
    /// Answers a stop after the end of a turn.
    IdleStopCompletes = "idle-stop-completes",
    /// Answers a stop before the first turn.
    EarlyStopCompletes = "early-stop-completes",
    /// Stops the turns of every session.
    StopStopsAll = "stop-stops-all",
    /// Writes one turn.complete for each stop.
    EachStopCompletes = "each-stop-completes",
    /// Ends a turn twice when the stop comes just after its end.
    StopRaceCompletes = "stop-race-completes",
    /// Lets a request stand when its turn is stopped.
    LateApprovalActs = "late-approval-acts",
    /// Writes one more output after a stopped turn has ended.
    TickAfterStop = "tick-after-stop",
    /// Looks for a stop only when it has written all that it has.
    BurstIsDeaf = "burst-is-deaf",
    /// Drops the queued inputs at a stop.
    StopClearsQueue = "stop-clears-queue",
    /// Ends at a stop for a session that it does not know.
    UnknownStopExits = "unknown-stop-exits",
    /// Runs a turn for a file.input.
    FileIsTurn = "file-is-turn",
    /// Opens an announced file by its name.
    NameIsPath = "name-is-path",
    /// Ends at a file that it cannot open.
    MissingFileExits = "missing-file-exits",
    /// Keeps the last part of a file name alone.
    LabelsCut = "labels-cut",
    /// Announces files by a relative path.
    RelativeFilePath = "relative-file-path",
    /// Announces a file before it has written it.
    FileAnnouncedEarly = "file-announced-early",
    /// Removes a file once it has announced it.
    FileRemovedAtEnd = "file-removed-at-end",
    /// Announces files without their MIME type.
    FileWithoutMime = "file-without-mime",
    /// Shows the files of one session to all.
    SharedFiles = "shared-files",
    /// Asks without saying for what resource.
    RequestWithoutResource = "request-without-resource",
    /// Takes an approval for a denial.
    ApprovalDenies = "approval-denies",
    /// Acts on any answer.
    DenialActs = "denial-acts",
    /// Acts while it asks.
    ActsBeforeAnswer = "acts-before-answer",
    /// Takes a second of silence for approval.
    SilenceApproves = "silence-approves",
    /// Takes any answer for the one that it waits for.
    AnyRequestAnswered = "any-request-answered",
    /// Looks for a request in all sessions.
    AnySessionAnswers = "any-session-answers",
    /// Takes any true-ish value for approval.
    TruthyApproves = "truthy-approves",
    /// Denies only on false.
    AbsentApproves = "absent-approves",
    /// Goes on waiting after an answer whose approved is no boolean.
    BadApprovalDropped = "bad-approval-dropped",
    /// Lets an approval follow a denial.
    SecondAnswerCounts = "second-answer-counts",
    /// Takes answers in the order of the requests.
    AnswersInOrder = "answers-in-order",
    /// Gives an answer to every session that waits.
    SessionsShareAnswers = "sessions-share-answers",
    /// Uses the same request id again and again.
    RequestIdsRepeat = "request-ids-repeat",
    /// Begins no turn anywhere while a permission waits.
    AskBlocksAll = "ask-blocks-all",
    /// Lets a request stand when its session is closed.
    CloseKeepsRequests = "close-keeps-requests",
    /// Answers a permission.response that nobody asked for.
    UnaskedAnswered = "unasked-answered",
    /// Lives on after the end of stdin.
    IgnoresEof = "ignores-eof",
    /// Ends after the end of stdin only if no session is open.
    EofWaitsForSessions = "eof-waits-for-sessions",
    /// Waits for the running turns at the end of stdin.
    EofWaitsForTurns = "eof-waits-for-turns",
    /// Ignores that nobody reads its stdout.
    SurvivesBrokenStdout = "survives-broken-stdout",
    /// Spins when nobody reads its stdout.
    SpinsOnBrokenStdout = "spins-on-broken-stdout",
    /// Writes question marks for what is not ASCII where the locale is C.
    AsciiOnly = "ascii-only",
    /// Drops outputs when the host reads slowly.
    DropsWhenFull = "drops-when-full",
    /// Reads nothing while a turn runs.
    TurnBlocksReader = "turn-blocks-reader",
    /// Runs test scripts without being told to.
    ProbeAlwaysOn = "probe-always-on",
    /// Loses an input when three wait already.
    LongQueueLost = "long-queue-lost",
    /// Ends at a type that holds anything but letters and dots.
    OddTypeExits = "odd-type-exits",
    /// Says something before session.ready.
    ReadyLate = "ready-late",
    /// Lists extensions that were not offered.
    ReadyClaimsAll = "ready-claims-all",
    /// Sends session.ready to a host without extensions.
    ReadyToCore = "ready-to-core",
    /// Sends fields of turns to a host without extensions.
    StatusToCore = "status-to-core",
    /// Sends fields of turns wherever any extension was agreed on.
    StatusToAny = "status-to-any",
    /// Leaves out numbers that are zero.
    ZeroLeftOut = "zero-left-out",
    /// Sends events to a host without extensions.
    EventsToCore = "events-to-core",
    /// Leaves the turn id out of its outputs.
    OutputWithoutTurnId = "output-without-turn-id",
    /// Stops the running turn whatever turn was named.
    StopTakesAnyTurn = "stop-takes-any-turn",
    /// Ignores a stop of a queued turn.
    QueuedStopIgnored = "queued-stop-ignored",
    /// Ends a steer as if it were a turn.
    SteerCompletes = "steer-completes",
    /// Runs a steer as a turn.
    SteerIsTurn = "steer-is-turn",
    /// Says that a steer was delivered though no turn runs.
    SteerAlwaysDelivered = "steer-always-delivered",
    /// Says that every turn was completed.
    StatusAlwaysCompleted = "status-always-completed",
    /// Names categories of errors that there are not.
    CategoryInvented = "category-invented",
    /// Sends session.closed before the ends of its turns.
    ClosedBeforeEnds = "closed-before-ends",
    /// Does not answer inputs of a session that it has ended.
    EndedSessionSilent = "ended-session-silent",
    /// Acts on the approval of a request that it has withdrawn.
    CancelledApprovalActs = "cancelled-approval-acts",
    /// Does not look at the kind of the option that was chosen.
    RejectOptionApproves = "reject-option-approves",
    /// Takes an option that it did not offer.
    UnknownOptionApproves = "unknown-option-approves",
    /// Loses the values of an answer.
    AnswerLost = "answer-lost",
    /// Goes on waiting after an answer with neither values nor cancelled.
    EmptyAnswerHangs = "empty-answer-hangs",
    /// Lets a question stand when its turn is stopped.
    QuestionOutlivesStop = "question-outlives-stop",
    /// Does not show a question to a host without questions.
    QuestionNotShown = "question-not-shown",
    /// Waits for an answer that a host without questions cannot give.
    QuestionWaitsForCore = "question-waits-for-core",
    /// Does not tell a failure to a host without turns.
    FailureSilent = "failure-silent",
    /// Does not answer session.update.
    UpdateUnanswered = "update-unanswered",
    /// Answers session.update twice.
    UpdateAnsweredTwice = "update-answered-twice",
    /// Lists every option that was asked for as applied.
    AppliesAllOptions = "applies-all-options",
    /// Ignores flow.pause.
    PauseIgnored = "pause-ignored",
    /// Holds outputs back, and lets turn.complete through.
    PauseLetsEndsThrough = "pause-lets-ends-through",
    /// Writes at the close what a pause held back.
    CloseReleasesPaused = "close-releases-paused",
    /// Ends a pause with the turn.
    PauseEndsWithTurn = "pause-ends-with-turn",
    /// Wants one resume for each pause.
    PausesCounted = "pauses-counted",
    /// Answers a ping when its turns have ended.
    PongWaitsForTurns = "pong-waits-for-turns",
    /// Answers a ping without its nonce.
    PongWithoutNonce = "pong-without-nonce",
    /// Leaves a tool call open when its turn ends.
    ToolLeftOpen = "tool-left-open",
    /// Drops a message for its _meta.
    MetaMustBeGood = "meta-must-be-good",
    /// Drops an input with a mode that it does not know.
    UnknownModeDrops = "unknown-mode-drops",
    /// Ends at the offer of an extension that it does not know.
    UnknownExtensionExits = "unknown-extension-exits",
    /// Claims to speak the host's version, whatever it is.
    ProtocolEchoed = "protocol-echoed",
    /// Says that the context was kept though it knows nothing of it.
    ResumeAlwaysKept = "resume-always-kept",
    /// Drops a message for an optional field of the wrong type.
    OptionalTypesMatter = "optional-types-matter",
    /// Serves session ids of any length.
    LongIdsServed = "long-ids-served",
    /// Holds back without a bound.
    PauseUnbounded = "pause-unbounded",
    /// Ignores a stop while the session is paused.
    StopWaitsForResume = "stop-waits-for-resume",
}

impl Mutant {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mutant| mutant.name() == name)
    }
}
