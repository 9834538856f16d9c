//! The channel to one end of a trial: a thread, a process, or an end on another host.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_model::{EndRole, Outcome};
use bytegauge_sys::children::lead_session;
use bytegauge_sys::process::{die_with_parent, spawn_error_hint};
use bytegauge_sys::process_tree;
use thiserror::Error;

use crate::address::{Address, Host};
use crate::end::pool::{RemoteError, RemoteHost, TrialNetwork};
use crate::end::serve::serve;
use crate::message::{Body, Command, Hello, PROTOCOL, Peer, Reply};

/// How long an end may take for its first reply: a process has to start.
pub(super) const GREETING: Duration = Duration::from_secs(30);

/// An end that has not replied this long after it should have is late: its host may be stopped.
pub const LATE: Duration = Duration::from_secs(1);

/// How long an idle end may take to leave.
const LEAVE: Duration = Duration::from_millis(200);

/// How long an end may take to leave if it has programs to end.
const LEAVE_WITH_PROGRAMS: Duration = Duration::from_secs(15);

/// Why an end does not answer.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// It has died, and how, if known: " (signal: 6 (SIGABRT))".
    #[error("the {0} died in the middle of a trial{1}")]
    Dead(EndRole, String),
    /// It is alive but does not reply.
    #[error("the {0} did not answer in time")]
    Silent(EndRole),
    /// It has another version.
    #[error("the {0} has version {1} of the ends' protocol, and this program {PROTOCOL}: use one version")]
    OtherVersion(EndRole, u32),
    /// Its first reply was not `Hello`.
    #[error("the {0} did not reply as an end of bytegauge: is it another program?")]
    Speechless(EndRole),
    /// It is on another host that cannot be reached: the reason and the next step.
    #[error("the {0} cannot be reached: {1}")]
    Far(EndRole, RemoteError),
    /// It is on another host, and the session has no line to it.
    #[error("the {0} cannot be reached: the far host is unknown: give --key-file (and --host again)")]
    NoLine(EndRole),
    /// It could not be started.
    #[error("the {0} could not be started: {1}{next}", next = spawn_error_hint(.1))]
    NotStarted(EndRole, io::Error),
}

impl From<ChannelError> for Outcome {
    fn from(error: ChannelError) -> Outcome {
        Outcome::Failed(error.to_string())
    }
}

/// A channel for commands to one end and its replies.
#[derive(Debug)]
pub struct Channel {
    role: EndRole,
    line: ChannelLine,
    replies: mpsc::Receiver<Reply>,
    /// The end's host, where it binds its sockets.
    pub host: Host,
}

#[derive(Debug)]
enum ChannelLine {
    Thread { commands: Option<mpsc::Sender<Command>>, thread: Option<JoinHandle<()>> },
    Process { child: Child, input: Option<UnixStream>, listener: Option<JoinHandle<()>> },
    Far { link: Arc<dyn RemoteHost>, end: u64 },
}

impl Channel {
    pub(super) fn thread(role: EndRole) -> Result<Channel, ChannelError> {
        let (commands, inbox) = mpsc::channel();
        let (outbox, replies) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("{}-end", role.name()))
            .spawn(move || serve(&mut (inbox, outbox), Body::Thread))
            .map_err(|error| ChannelError::NotStarted(role, error))?;
        let line = ChannelLine::Thread { commands: Some(commands), thread: Some(thread) };
        Ok(Channel { role, line, replies, host: Host::default() })
    }

    pub(super) fn process(
        role: EndRole,
        program: &Path,
        network: Option<&dyn TrialNetwork>,
    ) -> Result<Channel, ChannelError> {
        let not_started = |error| ChannelError::NotStarted(role, error);
        // It may pass on connections over it, too.
        let (input, theirs) = UnixStream::pair().map_err(not_started)?;
        let mut command = std::process::Command::new(program);
        command.args(["end", role.name()]).stdin(OwnedFd::from(theirs)).stdout(Stdio::piped());
        // An interrupt at the terminal reaches this process, which lets the trial finish; and the end competes for CPUs as the
        // other programs with which it is compared.
        lead_session(&mut command);
        // If this process is killed, no end may keep running. An end that runs a program disables the signal meanwhile
        // (`sys::supervisor`): it notices the end of its input, and ends the program first.
        die_with_parent(&mut command);
        if let Some(network) = network {
            network.place(&mut command, role.side());
        }
        let mut child = command.spawn().map_err(not_started)?;
        // Closes our copy of the other side of its input, so that a process waiting there sees that the end is gone.
        drop(command);
        let (outbox, replies) = mpsc::channel();
        let listen = |output| {
            std::thread::Builder::new().name(format!("{}-replies", role.name())).spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let Ok(reply) = serde_json::from_str(&line) else { return };
                    if outbox.send(reply).is_err() {
                        return;
                    }
                }
            })
        };
        let listener = child.stdout.take().map(listen).transpose().inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait();
        });
        let listener = listener.map_err(not_started)?;
        let line = ChannelLine::Process { child, input: Some(input), listener };
        Ok(Channel { role, line, replies, host: Host::default() })
    }

    /// An end as a process whose replies, and connections passed on, go elsewhere.
    ///
    /// # Errors
    /// [`ChannelError::NotStarted`] if the process cannot be made.
    pub fn with_replies_elsewhere(
        role: EndRole,
        program: &Path,
    ) -> Result<(Channel, mpsc::Receiver<Reply>, Option<UnixStream>), ChannelError> {
        let mut channel = Channel::process(role, program, None)?;
        let (_, closed) = mpsc::channel();
        let replies = std::mem::replace(&mut channel.replies, closed);
        let passed_on = match &channel.line {
            ChannelLine::Process { input: Some(input), .. } => input.try_clone().ok(),
            _ => None,
        };
        Ok((channel, replies, passed_on))
    }

    pub(super) fn far(role: EndRole, link: &Arc<dyn RemoteHost>) -> Result<Channel, ChannelError> {
        let (end, replies) = link.start().map_err(|why| ChannelError::Far(role, why))?;
        Ok(Channel { role, line: ChannelLine::Far { link: Arc::clone(link), end }, replies, host: Host::default() })
    }

    /// Whether it leads to an end of a session.
    pub(super) fn is_over(&self, session: &Arc<dyn RemoteHost>) -> bool {
        matches!(&self.line, ChannelLine::Far { link, .. } if Arc::ptr_eq(link, session))
    }

    /// Waits for its first reply.
    pub(super) fn greeted(mut self, patience: Duration) -> Result<Channel, ChannelError> {
        match self.reply_due(LATE, patience)? {
            Reply::Hello(Hello { protocol: PROTOCOL, host }) => self.host = host,
            Reply::Hello(Hello { protocol: theirs, .. }) => {
                return Err(ChannelError::OtherVersion(self.role, theirs));
            }
            _ => return Err(ChannelError::Speechless(self.role)),
        }
        Ok(self)
    }

    /// Sends a command to the end.
    ///
    /// # Errors
    /// [`ChannelError::Dead`] if the end has died.
    pub fn send(&mut self, command: Command) -> Result<(), ChannelError> {
        let sent = match &mut self.line {
            ChannelLine::Thread { commands: Some(commands), .. } => commands.send(command).is_ok(),
            ChannelLine::Process { input: Some(input), .. } => serde_json::to_string(&command)
                .is_ok_and(|line| input.write_all(format!("{line}\n").as_bytes()).and_then(|()| input.flush()).is_ok()),
            ChannelLine::Far { link, end } => link.tell(*end, command),
            _ => false,
        };
        if sent { Ok(()) } else { Err(self.dead()) }
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// [`ChannelError::Silent`] after `patience`, [`ChannelError::Dead`] if the end is gone.
    pub fn reply(&mut self, patience: Duration) -> Result<Reply, ChannelError> {
        let reply = match self.replies.recv_timeout(patience) {
            Ok(reply) => reply,
            Err(RecvTimeoutError::Timeout) => return Err(ChannelError::Silent(self.role)),
            Err(RecvTimeoutError::Disconnected) => return Err(self.dead()),
        };
        let ChannelLine::Far { link, .. } = &self.line else { return Ok(reply) };
        Ok(match reply {
            Reply::Listening(Address::Ip(bound)) => reached_at(link.agent(), bound),
            // A feature missing on the far host.
            Reply::Skipped(reason) => Reply::Skipped(format!("at {}: {reason}", link.agent())),
            reply => reply,
        })
    }

    /// The same. An end of another host that has not replied when it is due counts as gone if its agent does not answer
    /// either: the host may be stopped, which no connection shows.
    ///
    /// # Errors
    /// As [`Channel::reply`].
    pub fn reply_due(&mut self, due: Duration, patience: Duration) -> Result<Reply, ChannelError> {
        match self.reply(due.min(patience)) {
            Err(ChannelError::Silent(_)) if due < patience => match self.unanswered() {
                Some(gone) => Err(gone),
                None => self.reply(patience - due),
            },
            reply => reply,
        }
    }

    /// The error of an end of another host whose agent does not answer.
    pub fn unanswered(&mut self) -> Option<ChannelError> {
        match &self.line {
            ChannelLine::Far { link, .. } if !link.answers() => Some(self.dead()),
            _ => None,
        }
    }

    /// The end's process, if it is one.
    pub fn process_id(&self) -> Option<u32> {
        match &self.line {
            ChannelLine::Process { child, .. } => Some(child.id()),
            ChannelLine::Thread { .. } | ChannelLine::Far { .. } => None,
        }
    }

    fn dead(&mut self) -> ChannelError {
        let how = match &mut self.line {
            // The pipe closes as the process dies, a moment before it can be waited for; or it sent what is no reply, and lives.
            ChannelLine::Process { child, input, .. } => {
                hang_up(input);
                ended(child, self.role).map(|status| format!(" ({status})")).unwrap_or_default()
            }
            ChannelLine::Thread { .. } => String::new(),
            ChannelLine::Far { link, .. } => format!(" on the far host ({})", link.lost()),
        };
        ChannelError::Dead(self.role, how)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let _ = self.send(Command::Quit);
        match &mut self.line {
            // A thread that hangs in the kernel is abandoned; an idle one leaves at once.
            ChannelLine::Thread { commands, thread } => {
                commands.take();
                if let Some(thread) = thread.take().filter(JoinHandle::is_finished) {
                    let _ = thread.join();
                }
            }
            ChannelLine::Far { link, end } => link.finish(*end),
            ChannelLine::Process { child, input, listener } => {
                hang_up(input);
                let _ = ended(child, self.role);
                if let Some(listener) = listener.take() {
                    let _ = listener.join();
                }
            }
        }
    }
}

/// The address of an agent's end as reached from this host: always at the agent's own address, whatever the end reports. An
/// address of the other family would be one of another host, or of this one.
fn reached_at(agent: SocketAddr, bound: SocketAddr) -> Reply {
    if agent.is_ipv6() == bound.is_ipv6() {
        return Reply::Listening(Address::Ip(SocketAddr::new(agent.ip(), bound.port())));
    }
    let [family, transports] = if agent.is_ipv6() { ["IPv6", "tcp6 or udp6"] } else { ["IPv4", "tcp or udp"] };
    Reply::Skipped(format!(
        "at {agent}: the end listens at {bound}, but the agent is reached over {family}: use --transport {transports}"
    ))
}

/// Closes an end's input, even if another process has a copy of our side.
fn hang_up(input: &mut Option<UnixStream>) {
    if let Some(input) = input.take() {
        // It may be closed already.
        let _ = input.shutdown(Shutdown::Both);
    }
}

/// Waits for the process of an end, and kills it if it stays.
fn ended(child: &mut Child, role: EndRole) -> io::Result<ExitStatus> {
    if !leaves(child, role == EndRole::Command) {
        let _ = child.kill();
    }
    child.wait()
}

/// Waits until a process has left by itself: a moment if it is idle, longer while it ends its programs, or while an end of commands
/// sets the sockets of a running program back.
fn leaves(child: &mut Child, is_of_commands: bool) -> bool {
    let began = Instant::now();
    let has_programs = |pid| process_tree::tree(pid).is_ok_and(|tree| tree.len() > 1);
    while let Ok(None) = child.try_wait() {
        let waited = began.elapsed();
        if waited > LEAVE && (waited > LEAVE_WITH_PROGRAMS || !is_of_commands && !has_programs(child.id())) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

impl Peer for (mpsc::Receiver<Command>, mpsc::Sender<Reply>) {
    fn command(&mut self) -> Option<Command> {
        self.0.recv().ok()
    }

    fn reply(&mut self, reply: Reply) -> bool {
        self.1.send(reply).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The channel to an end with this first reply.
    fn beginning_with(word: Reply) -> Result<Channel, ChannelError> {
        let (outbox, replies) = mpsc::channel();
        outbox.send(word).unwrap();
        let line = ChannelLine::Thread { commands: None, thread: None };
        Channel { role: EndRole::Server, line, replies, host: Host::default() }.greeted(GREETING)
    }

    #[test]
    fn ends_of_an_agent_have_its_address() {
        let reached = |agent: &str, bound: &str| reached_at(agent.parse().unwrap(), bound.parse().unwrap());
        let at = |address: &str| Reply::Listening(Address::Ip(address.parse().unwrap()));
        assert_eq!(reached("192.0.2.1:4711", "0.0.0.0:9"), at("192.0.2.1:9"));
        assert_eq!(reached("192.0.2.1:4711", "127.0.0.1:9"), at("192.0.2.1:9"));
        assert_eq!(reached("[2001:db8::1]:4711", "[::1]:9"), at("[2001:db8::1]:9"));
        for (agent, bound) in
            [("192.0.2.1:1", "[::]:22"), ("192.0.2.1:1", "[::ffff:10.0.0.1]:22"), ("[2001:db8::1]:1", "127.0.0.1:22")]
        {
            assert!(matches!(reached(agent, bound), Reply::Skipped(_)), "{agent} {bound}");
        }
    }

    #[test]
    fn silent_end_is_given_up() {
        let (_outbox, replies) = mpsc::channel();
        let line = ChannelLine::Thread { commands: None, thread: None };
        let channel = Channel { role: EndRole::Client, line, replies, host: Host::default() };
        let error = channel.greeted(Duration::from_millis(10)).unwrap_err();
        assert!(matches!(error, ChannelError::Silent(EndRole::Client)), "{error}");
    }

    /// A host that was stopped after it had started an end.
    #[derive(Debug, Default)]
    struct StoppedHost(std::sync::Mutex<Option<mpsc::Sender<Reply>>>);

    impl RemoteHost for StoppedHost {
        fn agent(&self) -> SocketAddr {
            ([127, 0, 0, 1], 1).into()
        }

        fn near(&self) -> std::net::IpAddr {
            self.agent().ip()
        }

        fn facts(&self) -> Option<Arc<crate::end::pool::RemoteFacts>> {
            None
        }

        fn used_ns(&self) -> Option<u64> {
            None
        }

        fn lost(&self) -> String {
            "no answer".into()
        }

        fn reopen(&self, _: Duration) -> Result<(), RemoteError> {
            Ok(())
        }

        fn start(&self) -> Result<(u64, mpsc::Receiver<Reply>), RemoteError> {
            let (outbox, replies) = mpsc::channel();
            *self.0.lock().unwrap() = Some(outbox);
            Ok((1, replies))
        }

        fn tell(&self, _: u64, _: Command) -> bool {
            true
        }

        fn finish(&self, _: u64) {}
    }

    #[test]
    fn end_of_a_stopped_host_is_noticed_before_its_greeting_is_due() {
        let link: Arc<dyn RemoteHost> = Arc::new(StoppedHost::default());
        let patience = Duration::from_secs(3600);
        let error = Channel::far(EndRole::Server, &link).unwrap().greeted(patience).unwrap_err();
        assert!(matches!(&error, ChannelError::Dead(_, how) if how.contains("no answer")), "{error}");
    }

    #[test]
    fn ends_of_another_version_are_refused() {
        let host = Host { v4: [192, 0, 2, 7].into(), ..Host::default() };
        let hello = |protocol| Reply::Hello(Hello { protocol, host });
        assert_eq!(beginning_with(hello(PROTOCOL)).unwrap().host, host);
        let reason = |word| beginning_with(word).unwrap_err().to_string();
        let theirs = PROTOCOL + 1;
        assert!(reason(hello(theirs)).starts_with(&format!("the server has version {theirs} ")));
        assert!(reason(Reply::Ready).contains("did not reply as an end"));
    }
}
