//! Hands a batch's answers over with one wake-up for each thread on which somebody waits.
//!
//! To wake a task from another thread is a system call. So those who wait for the same batch on the same thread wait together: the
//! writer wakes one of them, and who is awake wakes the others, which is cheap on their own thread. Whoever stops waiting passes
//! the word on.
//!
//! That asks of all of them what executors do anyway: a task that is woken polls what it waits for, or drops it. One that did
//! neither would keep the others of its thread waiting.

use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use super::StoreError;

/// Those who wait for the answers of one batch. Once it is dropped, who has got none is told that the store is closed.
pub(super) struct Answers<T> {
    /// One for each thread.
    parties: Vec<Party<T>>,
    /// For each answer, the party that it belongs to, in the order in which they were asked for.
    order: Vec<usize>,
}

impl<T> Default for Answers<T> {
    fn default() -> Answers<T> {
        Answers { parties: Vec::new(), order: Vec::new() }
    }
}

impl<T> Answers<T> {
    /// A place for one answer more.
    pub fn ask(&mut self) -> Answered<T> {
        let thread = thread::current().id();
        let known = self.parties.iter().position(|party| party.thread == thread);
        let at = known.unwrap_or_else(|| {
            self.parties.push(Party { thread, places: 0, circle: Arc::default() });
            self.parties.len() - 1
        });
        self.order.push(at);
        let party = &mut self.parties[at];
        party.places += 1;
        Answered { circle: Arc::clone(&party.circle), place: party.places - 1, is_told: false }
    }

    /// Answers all of them, in the order in which they asked.
    pub fn give(mut self, answers: impl IntoIterator<Item = Result<T, StoreError>>) {
        let mut parts: Vec<_> = self.parties.iter().map(|party| Vec::with_capacity(party.places)).collect();
        for (at, answer) in mem::take(&mut self.order).into_iter().zip(answers) {
            parts[at].push(Some(answer));
        }
        for (party, answers) in self.parties.iter().zip(parts) {
            party.circle.tell(answers);
        }
    }
}

/// Those who wait on one thread.
struct Party<T> {
    thread: ThreadId,
    places: usize,
    circle: Arc<Circle<T>>,
}

/// However the writer ends, nobody goes on waiting for it.
impl<T> Drop for Party<T> {
    fn drop(&mut self) {
        self.circle.tell(Vec::new());
    }
}

/// What the writer and those who wait on one thread share.
struct Circle<T>(Mutex<State<T>>);

struct State<T> {
    /// By place; none where nobody waits any more, or not yet.
    waiting: Vec<Option<Waker>>,
    /// By place, once they are there.
    answers: Option<Vec<Option<Result<T, StoreError>>>>,
}

impl<T> Default for Circle<T> {
    fn default() -> Circle<T> {
        Circle(Mutex::new(State { waiting: Vec::new(), answers: None }))
    }
}

impl<T> Circle<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the answers in their places, unless they are there, and wakes one of those who wait.
    fn tell(&self, answers: Vec<Option<Result<T, StoreError>>>) {
        let mut state = self.lock();
        if state.answers.is_some() {
            return;
        }
        state.answers = Some(answers);
        let first = state.waiting.iter_mut().find_map(Option::take);
        drop(state);
        if let Some(first) = first {
            first.wake();
        }
    }
}

/// An answer that is waited for.
pub(super) struct Answered<T> {
    circle: Arc<Circle<T>>,
    place: usize,
    is_told: bool,
}

impl<T> Future for Answered<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let place = self.place;
        let mut state = self.circle.lock();
        let Some(answers) = &mut state.answers else {
            if state.waiting.len() <= place {
                state.waiting.resize(place + 1, None);
            }
            match &mut state.waiting[place] {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Poll::Pending;
        };
        let answer = answers.get_mut(place).and_then(Option::take);
        let mut others = mem::take(&mut state.waiting);
        drop(state);
        self.is_told = true;
        if let Some(own) = others.get_mut(place) {
            *own = None;
        }
        others.into_iter().flatten().for_each(Waker::wake);
        Poll::Ready(answer.unwrap_or(Err(StoreError::Closed)))
    }
}

impl<T> Drop for Answered<T> {
    fn drop(&mut self) {
        if self.is_told {
            return;
        }
        let mut state = self.circle.lock();
        if state.answers.is_none() {
            if let Some(own) = state.waiting.get_mut(self.place) {
                *own = None;
            }
            return;
        }
        // It may be the one who was woken for all.
        let others = mem::take(&mut state.waiting);
        drop(state);
        others.into_iter().flatten().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    use super::*;

    #[test]
    fn each_gets_the_answer_to_what_it_asked() {
        let mut answers = Answers::default();
        let mut here = [(); 2].map(|()| answers.ask());
        let (back, mut elsewhere) = thread::spawn(move || {
            let elsewhere = answers.ask();
            (answers, elsewhere)
        })
        .join()
        .unwrap();
        answers = back;
        let mut last = answers.ask();
        answers.give([Ok(0), Err(StoreError::Full), Ok(2), Ok(3)]);
        assert!(matches!(poll(&mut last, &Counted::new()), Poll::Ready(Ok(3))));
        assert!(matches!(poll(&mut elsewhere, &Counted::new()), Poll::Ready(Ok(2))));
        assert!(matches!(poll(&mut here[1], &Counted::new()), Poll::Ready(Err(StoreError::Full))));
        assert!(matches!(poll(&mut here[0], &Counted::new()), Poll::Ready(Ok(0))));
    }

    #[test]
    fn one_is_woken_and_wakes_the_others() {
        let (mut asked, wakers, answers) = waiting::<3>();
        answers.give([Ok(()), Ok(()), Ok(())]);
        assert_eq!(wakers.each_ref().map(|waker| waker.count()), [1, 0, 0]);
        assert!(poll(&mut asked[0], &wakers[0]).is_ready());
        assert_eq!(wakers.each_ref().map(|waker| waker.count()), [1, 1, 1]);
        assert!(asked[1..].iter_mut().all(|asked| poll(asked, &wakers[0]).is_ready()));
        drop(asked);
        assert_eq!(wakers.each_ref().map(|waker| waker.count()), [1, 1, 1], "nobody is woken twice");
    }

    #[test]
    fn who_stops_waiting_after_it_was_woken_wakes_the_others() {
        let (asked, wakers, answers) = waiting::<3>();
        answers.give([Ok(()), Ok(()), Ok(())]);
        let [first, ..] = asked;
        drop(first);
        assert_eq!(wakers.each_ref().map(|waker| waker.count()), [1, 1, 1]);
    }

    #[test]
    fn who_has_stopped_waiting_is_not_woken() {
        let (asked, wakers, answers) = waiting::<3>();
        let [first, _second, _third] = asked;
        drop(first);
        answers.give([Ok(()), Ok(()), Ok(())]);
        assert_eq!(wakers.each_ref().map(|waker| waker.count()), [0, 1, 0]);
    }

    #[test]
    fn who_is_never_answered_is_told_that_the_store_is_closed() {
        let (mut asked, wakers, answers) = waiting::<2>();
        drop(answers);
        assert_eq!(wakers.each_ref().map(|waker| waker.count()), [1, 0]);
        for asked in &mut asked {
            assert!(matches!(poll(asked, &wakers[0]), Poll::Ready(Err(StoreError::Closed))));
        }
        // Nor are those for whom there was no answer.
        let (mut asked, wakers, answers) = waiting::<2>();
        answers.give([Ok(())]);
        assert!(matches!(poll(&mut asked[1], &wakers[1]), Poll::Ready(Err(StoreError::Closed))));
        assert!(matches!(poll(&mut asked[0], &wakers[0]), Poll::Ready(Ok(()))));
    }

    #[test]
    fn the_last_task_that_asks_is_the_one_that_is_woken() {
        let (mut asked, wakers, answers) = waiting::<1>();
        let another = Counted::new();
        assert!(poll(&mut asked[0], &another).is_pending());
        answers.give([Ok(())]);
        assert_eq!((wakers[0].count(), another.count()), (0, 1));
    }

    /// So many who wait, and those by whom they are woken.
    fn waiting<const N: usize>() -> ([Answered<()>; N], [Arc<Counted>; N], Answers<()>) {
        let mut answers = Answers::default();
        let mut asked = [(); N].map(|()| answers.ask());
        let wakers = [(); N].map(|()| Counted::new());
        for (asked, waker) in asked.iter_mut().zip(&wakers) {
            assert!(poll(asked, waker).is_pending());
        }
        (asked, wakers, answers)
    }

    fn poll<T>(asked: &mut Answered<T>, waker: &Arc<Counted>) -> Poll<Result<T, StoreError>> {
        Pin::new(asked).poll(&mut Context::from_waker(&Waker::from(Arc::clone(waker))))
    }

    /// Counts how often a task is woken.
    struct Counted(AtomicUsize);

    impl Counted {
        fn new() -> Arc<Counted> {
            Arc::new(Counted(AtomicUsize::new(0)))
        }

        fn count(&self) -> usize {
            self.0.load(Relaxed)
        }
    }

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
}
