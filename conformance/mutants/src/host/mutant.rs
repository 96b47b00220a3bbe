//! The switches: each breaks one clause, or varies what the clauses leave open.

use std::sync::OnceLock;

/// What `--mutant` and `--variant` chose; set once, before anything runs.
static CHOSEN: OnceLock<(Option<Mutant>, Option<Variant>)> = OnceLock::new();

/// Settles what is broken in this process.
pub(crate) fn choose(mutant: Option<Mutant>, variant: Option<Variant>) {
    CHOSEN.get_or_init(|| (mutant, variant));
}

/// Whether this clause is to be broken.
pub(crate) fn broken(mutant: Mutant) -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen.0 == Some(mutant))
}

/// Whether this liberty is to be taken.
pub(crate) fn varied(variant: Variant) -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen.1 == Some(variant))
}

macro_rules! switches {
    ($(#[$about:meta])* $of:ident { $(#[doc = $doc:literal] $name:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $of { $(#[doc = $doc] $name,)+ }

        impl $of {
            /// Every switch, with what it does.
            pub(crate) const ALL: &[(Self, &str, &str)] = &[$((Self::$name, $text, $doc),)+];

            /// The switch of this name.
            pub(crate) fn named(name: &str) -> Option<Self> {
                Self::ALL.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(name)).map(|(switch, ..)| *switch)
            }
        }
    };
}

switches! {
    /// A clause that is broken.
    Mutant {
        #[doc = " Decodes each read by itself, so a character that is split over two reads is lost."]
        ChunkDecoded = "chunk-decoded",
        #[doc = " Takes every read for whole lines."]
        ReadIsLine = "read-is-line",
        #[doc = " Handles the first sixteen lines of a read and forgets the others."]
        OneLinePerRead = "one-line-per-read",
        #[doc = " Ends lines at U+2028, as naive line readers do."]
        SplitsAtU2028 = "splits-at-u2028",
        #[doc = " Takes a line with CR before its LF for noise."]
        CrlfRefused = "crlf-refused",
        #[doc = " Reports a blank line as an error of every session."]
        BlankReported = "blank-reported",
        #[doc = " Does not skip a byte order mark, so the first message is lost."]
        BomRefused = "bom-refused",
        #[doc = " Ends the process at the first line that is no JSON."]
        NoiseFatal = "noise-fatal",
        #[doc = " Repairs a line that is not UTF-8 and delivers it."]
        InvalidUtf8Passed = "invalid-utf8-passed",
        #[doc = " Drops lines above 64 KiB without a word."]
        Line64k = "line-64k",
        #[doc = " Stops reading for good at a line above its limit, as a scanner with a fixed buffer does."]
        Line1mEnds = "line-1m-ends",
        #[doc = " Collects a line in memory however long it gets."]
        LineUnbounded = "line-unbounded",
        #[doc = " Waits for the LF of the last line after the process has ended."]
        CutHangs = "cut-hangs",
        #[doc = " Loses NUL characters of a text."]
        NulLost = "nul-lost",
        #[doc = " Stops reading at an unpaired surrogate."]
        SurrogateFatal = "surrogate-fatal",
        #[doc = " Wants a message as the first line and gives the process up otherwise."]
        BannerFatal = "banner-fatal",
        #[doc = " Writes line feeds of a text unescaped."]
        NewlineRaw = "newline-raw",
        #[doc = " Ends its lines with CR LF."]
        CrlfWritten = "crlf-written",
        #[doc = " Writes U+2028 unescaped."]
        U2028Raw = "u2028-raw",
        #[doc = " Writes long lines in pieces, with pieces of other lines between."]
        WritesMixed = "writes-mixed",
        #[doc = " Leaves the later inputs of a session in a buffer for a while."]
        WriteUnflushed = "write-unflushed",
        #[doc = " Writes an empty text as a number."]
        EmptyContentNull = "empty-content-null",
        #[doc = " Writes a greeting of a type that nobody knows to each session."]
        UnknownTypeWritten = "unknown-type-written",
        #[doc = " Never writes session.start."]
        StartMissing = "start-missing",
        #[doc = " Writes session.start before every input."]
        StartRepeated = "start-repeated",
        #[doc = " Opens every session under the same id."]
        IdsShared = "ids-shared",
        #[doc = " Gives output to the session that spoke last."]
        OutputToLast = "output-to-last",
        #[doc = " Lets every third output be overtaken by the next."]
        OrderSwapped = "order-swapped",
        #[doc = " Gives output of an unknown id to some open session."]
        UnknownIdDelivered = "unknown-id-delivered",
        #[doc = " Goes on delivering what arrives for a closed session."]
        ClosedIdDelivered = "closed-id-delivered",
        #[doc = " Writes messages for a session that it has closed."]
        SendsAfterClose = "sends-after-close",
        #[doc = " Ends the process when one of its sessions closes."]
        CloseEndsProcess = "close-ends-process",
        #[doc = " Gives output without a session id to some open session."]
        MissingIdGuessed = "missing-id-guessed",
        #[doc = " Trims ids and lowers their case."]
        IdNormalised = "id-normalised",
        #[doc = " Writes session.close twice."]
        CloseTwice = "close-twice",
        #[doc = " Starts a session at its first input, after the files that precede it."]
        FileBeforeStart = "file-before-start",
        #[doc = " Forgets to close the wire session of a session that had no input."]
        SessionLeaked = "session-leaked",
        #[doc = " Fails the turn at a message of an unknown type."]
        UnknownTypeFatal = "unknown-type-fatal",
        #[doc = " Drops messages with fields that it does not know."]
        UnknownFieldsBad = "unknown-fields-bad",
        #[doc = " Drops output without a channel."]
        ChannelRequired = "channel-required",
        #[doc = " Drops output on a channel that it does not know."]
        ChannelUnknownLost = "channel-unknown-lost",
        #[doc = " Takes a missing required field for an empty text."]
        ContentInvented = "content-invented",
        #[doc = " Takes a message without a type for output."]
        TypeGuessed = "type-guessed",
        #[doc = " Takes an empty output for the end of the turn."]
        EmptyOutputEnds = "empty-output-ends",
        #[doc = " Reads turn.complete and does nothing with it."]
        CompleteUnread = "complete-unread",
        #[doc = " Ends a turn after a second of silence."]
        SilenceEnds = "silence-ends",
        #[doc = " Delivers turn.complete before the output that precedes it."]
        CompleteOvertakes = "complete-overtakes",
        #[doc = " Counts a stray turn.complete against the next turn."]
        StrayEndsNext = "stray-ends-next",
        #[doc = " Tells its hub of a turn.complete that ended nothing."]
        StrayDelivered = "stray-delivered",
        #[doc = " Drops output that belongs to no turn."]
        OutsideLost = "outside-lost",
        #[doc = " Ignores stop and close while a turn runs."]
        TurnUnstoppable = "turn-unstoppable",
        #[doc = " Ends the turn of every session at a turn.complete."]
        CompleteAnySession = "complete-any-session",
        #[doc = " Forgets an input that arrives while a turn runs."]
        SecondInputLost = "second-input-lost",
        #[doc = " Forgets an input without text."]
        EmptyInputLost = "empty-input-lost",
        #[doc = " Never writes stop."]
        StopUnwritten = "stop-unwritten",
        #[doc = " Writes each stop three times."]
        StopRepeated = "stop-repeated",
        #[doc = " Closes the session in place of stopping the turn."]
        StopCloses = "stop-closes",
        #[doc = " Handles nothing of a session between its stop and the end of the turn."]
        StopFreezes = "stop-freezes",
        #[doc = " Writes stop only when the agent has been quiet for a while."]
        StopAfterOutput = "stop-after-output",
        #[doc = " Writes stop only when the adapter has answered something of the turn."]
        StopBehindInput = "stop-behind-input",
        #[doc = " Ends the turn for its hub when it writes stop."]
        StopEndsAtOnce = "stop-ends-at-once",
        #[doc = " Shows a request without what the tool acts on."]
        RequestShortened = "request-shortened",
        #[doc = " Never passes an approval on."]
        ApprovalLost = "approval-lost",
        #[doc = " Leaves `approved` out where it is false."]
        DenialEmpty = "denial-empty",
        #[doc = " Approves what nobody has decided for two seconds."]
        ApprovesByDefault = "approves-by-default",
        #[doc = " Gives each answer to the oldest pending request."]
        AnswersOldest = "answers-oldest",
        #[doc = " Tells requests apart by their id alone, over all sessions."]
        RequestsGlobal = "requests-global",
        #[doc = " Answers a request id that was approved before by itself."]
        ApprovalRemembered = "approval-remembered",
        #[doc = " Approves requests of sessions that are not open."]
        UnknownRequestApproved = "unknown-request-approved",
        #[doc = " Approves requests that lack a field."]
        BadRequestApproved = "bad-request-approved",
        #[doc = " Leaves pending requests unanswered at stop."]
        StopLeavesPending = "stop-leaves-pending",
        #[doc = " Handles nothing of the process while a permission is pending."]
        PermissionBlocks = "permission-blocks",
        #[doc = " Forgets requests beyond sixteen."]
        RequestsLimited = "requests-limited",
        #[doc = " Forgets an input that comes while three others wait."]
        LongQueueLost = "long-queue-lost",
        #[doc = " Keeps a question from a core-only hub."]
        QuestionUnfolded = "question-unfolded",
        #[doc = " Passes _meta on, whatever it is."]
        MetaUnchecked = "meta-unchecked",
        #[doc = " Goes on under the same id when the adapter has closed a session."]
        ClosedGoesOn = "closed-goes-on",
        #[doc = " Denies requests that it could not understand."]
        BadRequestDenied = "bad-request-denied",
        #[doc = " Passes any category of an error on."]
        CategoryUnchecked = "category-unchecked",
        #[doc = " Passes the messages of the pipe on to adapters that agreed on nothing."]
        PipePassedOn = "pipe-passed-on",
        #[doc = " Forgets a stop while the session is paused."]
        PausedUnstoppable = "paused-unstoppable",
        #[doc = " Agrees on an extension by the reserved name journal."]
        JournalAgreed = "journal-agreed",
        #[doc = " Keeps to itself what an agent tells of itself."]
        FactsUntold = "facts-untold",
        #[doc = " Announces the file of its hub by a relative path."]
        FileRelative = "file-relative",
        #[doc = " Announces the file of its hub before the second half of it is written."]
        FileCut = "file-cut",
        #[doc = " Announces every file of the agent as plain text."]
        FileMimeLost = "file-mime-lost",
        #[doc = " Falls over a file that cannot be opened."]
        FileMissingFatal = "file-missing-fatal",
        #[doc = " Stores a file under the name that the adapter gives."]
        FileNameIsPath = "file-name-is-path",
        #[doc = " Takes a file from anywhere."]
        FileRootsUnchecked = "file-roots-unchecked",
        #[doc = " Drops a file without a name or a type."]
        FileDefaultsMissing = "file-defaults-missing",
        #[doc = " Opens and reads a file without looking at what it is."]
        FifoOpened = "fifo-opened",
        #[doc = " Digests files slowly in its only thread."]
        FileBlocks = "file-blocks",
        #[doc = " Does not end the turns of a process that exited."]
        ExitUnnoticed = "exit-unnoticed",
        #[doc = " Does not end the turns of a process that died by a signal."]
        SignalUnnoticed = "signal-unnoticed",
        #[doc = " Does not notice a process that ends before its first message."]
        EarlyExitUnnoticed = "early-exit-unnoticed",
        #[doc = " Says nothing when the command does not exist."]
        SpawnFailureSilent = "spawn-failure-silent",
        #[doc = " Forgets what it had not yet read when the process exits."]
        TailLost = "tail-lost",
        #[doc = " Does not notice a process that closed its stdout and lives."]
        EofUnnoticed = "eof-unnoticed",
        #[doc = " Waits for the end of the stream after the process has exited."]
        GrandchildWaited = "grandchild-waited",
        #[doc = " Shuts down by SIGKILL alone."]
        KilledAtOnce = "killed-at-once",
        #[doc = " Leaves a process alone that ignores the end of stdin and SIGTERM."]
        NeverKills = "never-kills",
        #[doc = " Kills what it started, and not the adapter that runs below that in a PID namespace."]
        NamespaceLeft = "namespace-left",
        #[doc = " Never reaps its processes."]
        ZombiesLeft = "zombies-left",
        #[doc = " Ends itself when a write to a dead adapter fails."]
        BrokenPipeFatal = "broken-pipe-fatal",
        #[doc = " Never reads stderr."]
        StderrUndrained = "stderr-undrained",
        #[doc = " Sends inputs to a new process without a session.start."]
        RestartUnstarted = "restart-unstarted",
        #[doc = " Starts a dying process again at once and forever."]
        RestartStorm = "restart-storm",
        #[doc = " Gives up when the process says nothing for two seconds after its start."]
        StartImpatient = "start-impatient",
        #[doc = " Ends the turns of all agents when one of them dies."]
        CrashSpreads = "crash-spreads",
        #[doc = " Writes to the adapter in the thread that reads from it."]
        WriteBlocks = "write-blocks",
        #[doc = " Stops reading an adapter when its hub reads slowly."]
        PipeHeld = "pipe-held",
        #[doc = " Refuses whatever its hub says while an adapter does not read."]
        CommandsWait = "commands-wait",
        #[doc = " Drops output while more than a thousand messages wait."]
        FloodDropped = "flood-dropped",
        #[doc = " Keeps everything that waits in memory, twice."]
        FloodInMemory = "flood-in-memory",
        #[doc = " Delivers one session until it pauses, then the next."]
        FloodStarves = "flood-starves",
        #[doc = " Loses the line that follows a line of noise."]
        SurvivesBadly = "survives-badly",
        #[doc = " Offers extensions without the protocol's number."]
        OfferWithoutProtocol = "offer-without-protocol",
        #[doc = " Holds inputs back until session.ready."]
        WaitsForReady = "waits-for-ready",
        #[doc = " Writes session.update to adapters that agreed on nothing."]
        TypesBeforeReady = "types-before-ready",
        #[doc = " Writes inputs without a turn_id."]
        TurnIdMissing = "turn-id-missing",
        #[doc = " Uses one turn_id for all turns of a session."]
        TurnIdRepeated = "turn-id-repeated",
        #[doc = " Ends the running turn at a turn.complete of another."]
        LateCompleteEnds = "late-complete-ends",
        #[doc = " Makes late output part of the running turn."]
        LateOutputAdopted = "late-output-adopted",
        #[doc = " Sends a steer to agents that cannot take one."]
        SteerAnyway = "steer-anyway",
        #[doc = " Writes session.close for a session that the adapter has closed."]
        ClosedIsClosedAgain = "closed-is-closed-again",
        #[doc = " Answers a request that was withdrawn."]
        CancelAnswered = "cancel-answered",
        #[doc = " Asks again for a request_id that is pending."]
        DuplicateReplaces = "duplicate-replaces",
        #[doc = " Approves with an option that rejects."]
        OptionMismatchApproves = "option-mismatch-approves",
        #[doc = " Writes the answer of a question twice."]
        QuestionAnsweredTwice = "question-answered-twice",
        #[doc = " Leaves a question unanswered at stop."]
        QuestionLeft = "question-left",
        #[doc = " Goes on when the agent does not honour a restriction."]
        OptionsUnenforced = "options-unenforced",
        #[doc = " Goes on delivering to a session that is paused."]
        PauseIgnored = "pause-ignored",
        #[doc = " Answers ping behind everything that waits for the hub."]
        PingQueued = "ping-queued",
        #[doc = " Loses _meta."]
        MetaDropped = "meta-dropped",
        #[doc = " Passes fields on that it does not know."]
        UnknownFieldsPassed = "unknown-fields-passed",
        #[doc = " Leaves tool calls open at the end of a turn."]
        ToolsLeftOpen = "tools-left-open",
        #[doc = " Passes extension fields of an adapter that agreed on nothing."]
        UnagreedPassed = "unagreed-passed",
        #[doc = " Restarts without resume."]
        ResumeForgotten = "resume-forgotten",
        #[doc = " Does not say that the context is lost."]
        ContextUntold = "context-untold",
        #[doc = " Says twice that the context is lost."]
        ContextToldTwice = "context-told-twice",
        #[doc = " Sends the input of a crash again."]
        InputResent = "input-resent",
        #[doc = " Drops a message for an optional field of the wrong type."]
        WrongOptionalBad = "wrong-optional-bad",
        #[doc = " Takes ids of any length."]
        LongIdTaken = "long-id-taken",
        #[doc = " Serves an unknown agent by the default one."]
        UnknownAgentDefault = "unknown-agent-default",
        #[doc = " Uses an id again that its process has seen."]
        IdReused = "id-reused",
        #[doc = " Does not answer agents.list."]
        AgentsUnlisted = "agents-unlisted",
        #[doc = " Answers session.start when the agent has answered."]
        ReadyAfterAgent = "ready-after-agent",
        #[doc = " Offers downstream only what its hub offered."]
        OfferFollowsHub = "offer-follows-hub",
        #[doc = " Does not answer a session.update that the agent cannot take."]
        UpdateUnanswered = "update-unanswered",
        #[doc = " Ends a turn of a dead process as if it were complete."]
        EndUnexplained = "end-unexplained",
        #[doc = " Ends a turn of a dead process for a core-only hub without a word."]
        EndUnexplainedCore = "end-unexplained-core",
        #[doc = " Tells the end of a process to nobody who is idle."]
        ExitUntold = "exit-untold",
        #[doc = " Tells the end of a process to no core-only hub."]
        ExitUntoldCore = "exit-untold-core",
        #[doc = " Does not withdraw a request that was settled below."]
        WithdrawalUntold = "withdrawal-untold",
        #[doc = " Writes permission.cancel to a core-only hub."]
        WithdrawalToldCore = "withdrawal-told-core",
        #[doc = " Refuses files and long lines without telling its hub."]
        RefusalUntold = "refusal-untold",
        #[doc = " Refuses files and long lines without telling a core-only hub."]
        RefusalUntoldCore = "refusal-untold-core",
        #[doc = " Passes noise on as an error of each session."]
        NoiseTold = "noise-told",
        #[doc = " Passes noise on as output to a core-only hub."]
        NoiseToldCore = "noise-told-core",
        #[doc = " Keeps it to itself that a session was refused or has ended."]
        ClosedUntold = "closed-untold",
        #[doc = " Does not answer inputs of a session that has ended, for a core-only hub."]
        EndedSessionSilent = "ended-session-silent",
        #[doc = " Leaves at the end of stdin without ending the open turns."]
        EofTurnsDropped = "eof-turns-dropped",
        #[doc = " Dies at SIGTERM."]
        TermFatal = "term-fatal",
        #[doc = " Lives on when nobody reads its stdout."]
        BrokenStdoutIgnored = "broken-stdout-ignored",
        #[doc = " Waits half a minute for adapters that ignore the end of stdin."]
        ShutdownLingers = "shutdown-lingers",
        #[doc = " Writes to its hub in the order of arrival."]
        UpstreamInTurnByArrival = "upstream-in-turn-by-arrival",
        #[doc = " Holds every session when one is paused."]
        PauseHoldsAll = "pause-holds-all",
        #[doc = " Delivers what a paused session held when it closes."]
        CloseReleasesSpool = "close-releases-spool",
        #[doc = " Writes every type of message to a core-only hub."]
        RichToCore = "rich-to-core",
        #[doc = " Writes new messages before the held ones after a resume."]
        SpoolOvertaken = "spool-overtaken",
        #[doc = " Passes its whole environment on."]
        EnvironmentInherited = "environment-inherited",
        #[doc = " Makes an exchange folder that all may read, and never removes it."]
        ExchangeLeft = "exchange-left",
        #[doc = " Announces the adapter's own file in place of a copy."]
        OriginalAnnounced = "original-announced",
    }
}

switches! {
    /// A liberty that is taken and breaks nothing.
    Variant {
        #[doc = " Leaves `content` out where it is empty."]
        Vh01 = "vh-01",
        #[doc = " Writes `user_id` and `exit_code` to its adapter besides."]
        Vh02 = "vh-02",
        #[doc = " Escapes everything that is not ASCII."]
        Vh03 = "vh-03",
        #[doc = " Writes many messages in one call."]
        Vh04 = "vh-04",
        #[doc = " Runs one process for each session."]
        Vh05 = "vh-05",
        #[doc = " Writes stop before close."]
        Vh06 = "vh-06",
        #[doc = " Queues the second input until the first has ended."]
        Vh07 = "vh-07",
        #[doc = " Starts the process at the first input."]
        Vh08 = "vh-08",
        #[doc = " Starts the agent again as soon as it has ended."]
        Vh09 = "vh-09",
        #[doc = " Never starts an agent again."]
        Vh10 = "vh-10",
        #[doc = " Delivers output every 100 ms."]
        Vh11 = "vh-11",
        #[doc = " Refuses inputs without text."]
        Vh12 = "vh-12",
        #[doc = " Keeps a spare process."]
        Vh13 = "vh-13",
        #[doc = " Passes PATH and HOME alone."]
        Vh14 = "vh-14",
        #[doc = " Uses socket pairs in place of pipes."]
        Vh15 = "vh-15",
        #[doc = " Puts each adapter into a PID namespace of its own, where all have the same pid."]
        Vh16 = "vh-16",
    }
}
