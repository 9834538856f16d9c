//! Tables of the language check: banned phrases with their replacements, and the paths that still contain them.
//!
//! Data only; never reads a file.

/// Banned phrases and what to write instead.
///
/// A phrase is a sequence of words; `|` separates alternatives for one word. Case does not count, and identifiers are
/// split into words: `is_told` and `IsTold` contain `told`.
pub const BANNED: &[(&str, &str)] = &[
    ("nobody|whoever|somebody|someone|everybody|anybody", "name the actor: the reader, the server, the user"),
    ("he|him|his|himself", "it, its; or name the person: the user"),
    ("beside", "next to, in addition to, compared with"),
    ("dearer|dearest", "slower (rates), uses more CPU (CPU time)"),
    ("told", "reported, shown, given; significantly different (told apart)"),
    ("say|says|said", "reports, shows, states, contains"),
    ("speak|speaks|spoke|spoken", "reports, shows, uses (a protocol), supports (a claim)"),
    ("so many|much", "the number, the quantity, up to N"),
    ("foreign", "external, third-party"),
    ("others'", "name the owner: other processes, other engines"),
    ("of ours|theirs|his", "name the owner, or delete it"),
    ("mend|mends|mended|heal|heals|healed", "fix, fixes, fixed"),
    ("stand|stands|stood", "is in, is at, appears in"),
    ("lie|lies", "is in, is between"),
    ("but for", "except"),
    ("want of", "without, lack of"),
    ("in words", "as text"),
    ("in vain", "without effect, unsuccessfully"),
    ("in small", "briefly, at a small scale"),
    ("anew", "again"),
    ("the like of", "similar to"),
    ("turn|turns|turned round", "reverse, reverses"),
    ("know|knows|known|knew of", "name the actor and the fact: has, accepts, uses"),
    ("hang|hangs|hung on", "depends on"),
    ("heed|heeds|heeded", "respects, follows, uses"),
    ("send|sends|sent home", "stops all"),
    ("go|goes|gone|went home", "is cancelled, stops"),
    ("see|sees|seen|saw off", "shuts down"),
    ("life imposes", "environment; the peer's setting"),
    ("the|a|its|every|each|healthy twin", "A/A control; stored names stay: `twin_of`, `twin`"),
    ("twins", "A/A controls"),
    ("leash|leashes", "transfer limit"),
    ("astray", "unclaimed"),
    ("stranger|strangers", "unauthenticated connection"),
    ("guest|guests", "admitted peer; for virtual machines: VM"),
    ("hatch", "handoff"),
    ("soiled", "needs a new socket"),
    ("labour", "work"),
    ("clerk|clerks", "responder"),
];

/// Phrases that are allowed although their first word is banned, each with the reason.
pub const ALLOWED: &[(&str, &str)] = &[
    ("foreign key|keys", "the term of SQL"),
    ("stand|stands|stood for", "to represent"),
    ("in words of", "a size in machine words"),
    ("guest nice", "a column of /proc/stat"),
    ("told drops", "a stored name: drops reported by SO_RXQ_OVFL"),
    ("foreign cpus", "a stored name: CPU use of other programs"),
    ("spoken against", "a key of the JSON document"),
];

/// First words of sentences and of clauses after a colon that begin with a relative clause. A question may begin with them.
pub const OPENERS: &[&str] = &["What", "what", "Who", "who", "Whose", "whose", "Of"];

/// Paths that are never checked, each with the reason.
pub const SKIPPED: &[(&str, &str)] = &[
    ("crates/store/src/schema.rs", "steps of the migration that were released never change, comments included"),
    ("xtask/src/wording", "contains the banned phrases"),
    ("xtask/src/wording.rs", "its tests contain banned phrases"),
];

/// Paths that still have to be cleaned. Remove a path when it passes, or replace it by the part that does not pass yet.
pub const STILL_TO_CLEAN: &[&str] = &[];
