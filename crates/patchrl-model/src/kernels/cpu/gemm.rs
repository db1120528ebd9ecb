//! Matrix product over views that are checked at the door.
//!
//! Owns the only call into the `gemm` crate. The sum over the inner dimension is
//! never split over threads, so the bits do not depend on their timing.

use crate::Real;
use gemm::Parallelism;

/// A matrix that is read: (rows, cols) with any strides.
#[derive(Clone, Copy)]
pub(crate) struct Mat<'a> {
    data: &'a [Real],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> Mat<'a> {
    /// Row-major without gaps.
    pub(crate) fn new(data: &'a [Real], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols)
    }

    /// Row-major, `row_stride` apart.
    pub(crate) fn strided(data: &'a [Real], rows: usize, cols: usize, row_stride: usize) -> Self {
        assert!(fits(data.len(), rows, cols, row_stride), "a matrix view leaves its buffer");
        Self { data, rows, cols, row_stride, col_stride: 1 }
    }

    /// `count` rows from `first` on.
    pub(crate) fn rows(self, first: usize, count: usize) -> Self {
        assert!(first + count <= self.rows, "rows outside the matrix");
        let start = (first * self.row_stride).min(self.data.len());
        Self { data: &self.data[start..], rows: count, ..self }
    }

    /// The same numbers, transposed.
    pub(crate) fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }
}

/// A row-major matrix that is written.
pub(crate) struct MatMut<'a> {
    data: &'a mut [Real],
    rows: usize,
    cols: usize,
    row_stride: usize,
}

impl<'a> MatMut<'a> {
    /// Row-major without gaps.
    pub(crate) fn new(data: &'a mut [Real], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols)
    }

    /// Row-major, `row_stride` apart.
    pub(crate) fn strided(
        data: &'a mut [Real],
        rows: usize,
        cols: usize,
        row_stride: usize,
    ) -> Self {
        assert!(cols <= row_stride, "rows of a written matrix overlap");
        assert!(fits(data.len(), rows, cols, row_stride), "a matrix view leaves its buffer");
        Self { data, rows, cols, row_stride }
    }
}

/// Whether the product replaces the target or is added to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Write {
    Set,
    Add,
}

/// Whether a product may use the thread pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threads {
    /// Inside a job that is parallel already.
    One,
    All,
}

/// `out = scale * a · b`, or `out += scale * a · b`.
pub(crate) fn gemm(
    MatMut { data, rows, cols, row_stride }: MatMut<'_>,
    write: Write,
    scale: Real,
    (a, b): (Mat<'_>, Mat<'_>),
    threads: Threads,
) {
    assert!(
        rows == a.rows && cols == b.cols && a.cols == b.rows,
        "({}, {}) from ({}, {}) · ({}, {})",
        rows,
        cols,
        a.rows,
        a.cols,
        b.rows,
        b.cols
    );
    if rows == 0 || cols == 0 {
        return;
    }
    let parallelism = match threads {
        Threads::One => Parallelism::None,
        Threads::All => Parallelism::Rayon(0),
    };
    #[expect(unsafe_code, reason = "the gemm crate takes raw pointers")]
    // SAFETY: the constructors checked that the last element of each view lies in
    // its slice; `out` is borrowed mutably, so it overlaps neither `a` nor `b`, and
    // its rows do not overlap each other.
    unsafe {
        gemm::gemm(
            rows,
            cols,
            a.cols,
            data.as_mut_ptr(),
            1,
            row_stride as isize,
            write == Write::Add,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            1.0,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}

fn fits(len: usize, rows: usize, cols: usize, row_stride: usize) -> bool {
    rows == 0 || cols == 0 || (rows - 1) * row_stride + cols <= len
}
