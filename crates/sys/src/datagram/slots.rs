//! Values for the kernel to read and write through pointers that are kept.

use std::ptr::NonNull;

/// A fixed number of values of one kind, which stay where they are.
///
/// They are reached through one raw pointer. A reference that is made of it is over before the kernel uses a pointer that
/// was made of it, so neither makes the other invalid (Tree Borrows).
pub(super) struct Slots<T> {
    start: NonNull<[T]>,
}

impl<T: Copy> Slots<T> {
    pub(super) fn new(len: usize, value: T) -> Slots<T> {
        let values = Box::into_raw(vec![value; len].into_boxed_slice());
        Slots { start: NonNull::new(values).expect("a box is not null") }
    }

    pub(super) fn len(&self) -> usize {
        self.start.len()
    }

    /// Where a value is, for the kernel.
    #[inline]
    pub(super) fn at(&self, index: usize) -> *mut T {
        assert!(index < self.len(), "a slot that exists");
        // SAFETY: inside the allocation, as was just checked.
        unsafe { self.start.cast::<T>().as_ptr().add(index) }
    }

    #[inline]
    pub(super) fn all(&self) -> &[T] {
        // SAFETY: the values are initialised and of this object alone. What writes to them has borrowed it exclusively: a
        // call of the kernel, or `all_mut`.
        unsafe { self.start.as_ref() }
    }

    #[inline]
    pub(super) fn all_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `all`, and the borrow of `self` is exclusive.
        unsafe { self.start.as_mut() }
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`, and freed once.
        drop(unsafe { Box::from_raw(self.start.as_ptr()) });
    }
}
