//! The live view on a terminal.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::Print;
use crossterm::terminal::{
    self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use leasehold_base::shown::shown;

use super::{Key, View};
use crate::snapshot::Snapshot;
use crate::span::Span;

/// Shows the activity, updated each `interval`, until the user quits or a request to the server
/// fails.
///
/// # Errors
/// The terminal cannot be used, or a request to the server failed.
pub fn watch(interval: Duration, mut ask: impl FnMut() -> io::Result<Snapshot>) -> io::Result<()> {
    let mut before = ask()?;
    let mut happened = Span::since_start(&before);
    let mut view = View::default();
    let mut screen = Screen::enter()?;
    let mut next = Instant::now() + interval;
    loop {
        screen.draw(&view, &happened)?;
        while event::poll(next.saturating_duration_since(Instant::now()))? {
            match pressed(&event::read()?) {
                Pressed::Leave => return Ok(()),
                Pressed::Key(key) if !view.press(key) => return Ok(()),
                Pressed::Key(_) | Pressed::Nothing => {}
            }
            screen.draw(&view, &happened)?;
        }
        next = Instant::now() + interval;
        if !view.is_paused() {
            let after = ask()?;
            happened = Span::between(&before, &after);
            before = after;
        }
    }
}

/// The effect of an event.
enum Pressed {
    Key(Key),
    Leave,
    Nothing,
}

#[allow(clippy::wildcard_enum_match_arm, reason = "few of all keys mean something")]
fn pressed(event: &Event) -> Pressed {
    let Event::Key(key) = event else { return Pressed::Nothing };
    if key.kind == KeyEventKind::Release {
        return Pressed::Nothing;
    }
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Pressed::Leave,
        KeyCode::Char(sign) => Pressed::Key(Key::Sign(sign)),
        KeyCode::Enter => Pressed::Key(Key::Enter),
        KeyCode::Backspace => Pressed::Key(Key::Back),
        KeyCode::Esc => Pressed::Key(Key::Escape),
        _ => Pressed::Nothing,
    }
}

/// The terminal during the view; its state is restored on drop.
struct Screen(io::Stdout);

impl Screen {
    fn enter() -> io::Result<Self> {
        enable_raw_mode()?;
        let mut screen = Self(io::stdout());
        execute!(screen.0, EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    fn draw(&mut self, view: &View, happened: &Span) -> io::Result<()> {
        let (columns, rows) = terminal::size()?;
        let lines = view.lines(happened, usize::from(columns), usize::from(rows));
        for (row, line) in (0..rows).zip(lines) {
            let begin = cursor::MoveTo(0, row);
            queue!(self.0, begin, Print(shown(&line)), Clear(ClearType::UntilNewLine))?;
        }
        self.0.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, its state cannot be restored.
        let _ = execute!(self.0, LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
    }
}
