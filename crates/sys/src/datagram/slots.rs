//! Values that the kernel reads and writes through stored pointers.

use std::ptr::NonNull;

/// A fixed number of values of one kind, which stay where they are.
///
/// All access uses one raw pointer. A reference made from it ends before the kernel uses a pointer made from it, so
/// neither invalidates the other (Tree Borrows).
pub(super) struct SharedSlots<T> {
    start: NonNull<[T]>,
}

impl<T: Copy> SharedSlots<T> {
    pub(super) fn new(len: usize, value: T) -> SharedSlots<T> {
        let values = Box::into_raw(vec![value; len].into_boxed_slice());
        SharedSlots { start: NonNull::new(values).expect("a box is not null") }
    }

    pub(super) fn len(&self) -> usize {
        self.start.len()
    }

    /// A pointer to a value, for the kernel.
    #[inline]
    pub(super) fn at(&self, index: usize) -> *mut T {
        assert!(index < self.len(), "a slot that exists");
        // SAFETY: inside the allocation, as was just checked.
        unsafe { self.start.cast::<T>().as_ptr().add(index) }
    }

    #[inline]
    pub(super) fn all(&self) -> &[T] {
        // SAFETY: the values are initialised and belong to this object. Each writer has borrowed it exclusively: a call
        // of the kernel, or `all_mut`.
        unsafe { self.start.as_ref() }
    }

    #[inline]
    pub(super) fn all_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `all`, and the borrow of `self` is exclusive.
        unsafe { self.start.as_mut() }
    }
}

impl<T> Drop for SharedSlots<T> {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`, and freed once.
        drop(unsafe { Box::from_raw(self.start.as_ptr()) });
    }
}
