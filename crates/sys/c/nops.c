/*
 * NOPs through liburing, in C, as tight as its interface allows: the loop that a C program would write.
 *
 * Two loops. One submits a batch and takes all its completions. The other one is what a published benchmark
 * measured: it submits and never takes a completion, so that the queue overflows after a few rounds.
 *
 * What a mode does not need is compiled out: every combination has a loop of its own, as the Rust rings have.
 * src/nop/liburing.rs declares the same structures and functions.
 */
#include <errno.h>
#include <liburing.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef IORING_SETUP_NO_SQARRAY
#define KNOWS_NO_SQARRAY 1
#else
#define KNOWS_NO_SQARRAY 0
#endif

/* Tells the CPU that this is a spin. */
static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

enum { USER_DATA_NONE, USER_DATA_UNIQUE, USER_DATA_BOXED };
enum { OK, REFUSED, WRONG, INVENTED };

/* What a program keeps of an operation, on the heap. */
struct operation {
	uint64_t number;
	uint64_t state[3];
};

struct nops {
	struct io_uring ring;
	unsigned batch;
	int user_data;
	int checked;
	/* The next number, the round's first one, and a planted fault. */
	uint64_t next, first, skew;
	uint32_t round;
	/* The last round in which each number came back; the round's objects by their place in it. */
	uint32_t *seen;
	struct operation **outstanding;
	unsigned cursor;
};

struct lap {
	uint64_t submitted, completed, enters;
	uint64_t wrong_user_data;
	int32_t wrong_result;
	int32_t error;
	uint32_t asked, came;
};

int bytegauge_nops_know_no_sqarray(void)
{
	return KNOWS_NO_SQARRAY;
}

void bytegauge_nops_close(struct nops *n)
{
	unsigned i;

	if (!n)
		return;
	io_uring_queue_exit(&n->ring);
	for (i = 0; n->outstanding && i < n->batch; i++)
		free(n->outstanding[i]);
	free(n->outstanding);
	free(n->seen);
	free(n);
}

/* A ring, or NULL and an error number. */
struct nops *bytegauge_nops_open(unsigned entries, unsigned flags, unsigned idle_ms, int registered, unsigned batch,
				 int user_data, int checked, int *error)
{
	struct io_uring_params params;
	struct nops *n = calloc(1, sizeof(*n));
	int done;

	*error = ENOMEM;
	if (!n)
		return NULL;
	n->batch = batch;
	n->user_data = user_data;
	n->checked = checked;
	n->next = (uint64_t)1 << 32;
	n->seen = calloc(batch, sizeof(*n->seen));
	n->outstanding = calloc(batch, sizeof(*n->outstanding));
	memset(&params, 0, sizeof(params));
	params.flags = flags;
	params.sq_thread_idle = idle_ms;
	if (n->seen && n->outstanding) {
		done = io_uring_queue_init_params(entries, &n->ring, &params);
		if (!done) {
			done = registered ? io_uring_register_ring_fd(&n->ring) : 1;
			/* It says how many it registered. */
			if (done == 1)
				return n;
			io_uring_queue_exit(&n->ring);
			done = done < 0 ? done : -EINVAL;
		}
		*error = -done;
	}
	free(n->outstanding);
	free(n->seen);
	free(n);
	return NULL;
}

static inline __attribute__((always_inline)) int submit(struct nops *n, struct lap *lap)
{
	unsigned left = n->batch;
	int done;

	lap->submitted += left;
	do {
		lap->enters++;
		done = io_uring_submit(&n->ring);
		if (done < 0) {
			lap->error = -done;
			return REFUSED;
		}
		left -= (unsigned)done < left ? (unsigned)done : left;
	} while (left);
	return OK;
}

static inline __attribute__((always_inline)) int fill(struct nops *n, struct lap *lap, const int user_data,
						      const int whole)
{
	unsigned slot;

	n->first = n->next + n->skew;
	n->round++;
	n->cursor = 0;
	for (slot = 0; slot < n->batch; slot++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&n->ring);

		while (__builtin_expect(!sqe, 0)) {
			/* Only a kernel's thread may not have taken what stands there. */
			int done = io_uring_sqring_wait(&n->ring);

			if (done < 0 || !(n->ring.flags & IORING_SETUP_SQPOLL)) {
				lap->error = done < 0 ? -done : ENOSPC;
				return REFUSED;
			}
			sqe = io_uring_get_sqe(&n->ring);
		}
		if (whole)
			io_uring_prep_nop(sqe);
		else
			sqe->opcode = IORING_OP_NOP;
		if (user_data == USER_DATA_UNIQUE) {
			sqe->user_data = n->next++;
		} else if (user_data == USER_DATA_BOXED) {
			struct operation *operation = malloc(sizeof(*operation));

			if (!operation) {
				lap->error = ENOMEM;
				return REFUSED;
			}
			memset(operation, 0, sizeof(*operation));
			operation->number = n->next++;
			free(n->outstanding[slot]);
			n->outstanding[slot] = operation;
			sqe->user_data = (uintptr_t)operation;
		} else if (whole) {
			sqe->user_data = 0;
		}
	}
	return OK;
}

/* The address that came back must be one that is outstanding; it is never followed before that is known. */
static inline __attribute__((always_inline)) int settle_boxed(struct nops *n, uint64_t user_data, int32_t result,
							      const int checked)
{
	uint64_t wanted = user_data + n->skew;
	unsigned place = n->cursor;
	int sound;

	if (place >= n->batch || (uintptr_t)n->outstanding[place] != wanted)
		for (place = 0; place < n->batch && (uintptr_t)n->outstanding[place] != wanted; place++)
			;
	if (place == n->batch || !n->outstanding[place])
		return 0;
	sound = !checked || (n->outstanding[place]->number + n->skew >= n->first && result == 0);
	free(n->outstanding[place]);
	n->outstanding[place] = NULL;
	n->cursor = place + 1;
	return sound;
}

static inline __attribute__((always_inline)) int settle(struct nops *n, uint64_t user_data, int32_t result,
							const int kind, const int checked)
{
	uint64_t at;

	if (kind == USER_DATA_BOXED)
		return settle_boxed(n, user_data, result, checked);
	if (kind == USER_DATA_NONE)
		return user_data == n->skew && result == 0;
	at = user_data - n->first;
	if (at >= n->batch || n->seen[at] == n->round || result != 0)
		return 0;
	n->seen[at] = n->round;
	return 1;
}

static inline __attribute__((always_inline)) int take(struct nops *n, struct lap *lap, unsigned spins_max,
						      unsigned interruptions_max, const int kind, const int checked)
{
	const int reads = checked || kind == USER_DATA_BOXED;
	unsigned left = n->batch, spins = 0, interruptions = 0;

	for (;;) {
		unsigned ready = io_uring_cq_ready(&n->ring);

		if (__builtin_expect(ready > left, 0)) {
			lap->asked = left;
			lap->came = ready;
			return INVENTED;
		}
		if (reads) {
			struct io_uring_cqe *cqe;
			unsigned head;

			ready = 0;
			io_uring_for_each_cqe(&n->ring, head, cqe) {
				if (__builtin_expect(!settle(n, cqe->user_data, cqe->res, kind, checked), 0)) {
					lap->wrong_user_data = cqe->user_data;
					lap->wrong_result = cqe->res;
					return WRONG;
				}
				ready++;
			}
			if (__builtin_expect(ready > left, 0)) {
				lap->asked = left;
				lap->came = ready;
				return INVENTED;
			}
		}
		io_uring_cq_advance(&n->ring, ready);
		lap->completed += ready;
		left -= ready;
		if (!left)
			return OK;
		if ((n->ring.flags & IORING_SETUP_SQPOLL) && spins < spins_max) {
			spins++;
			relax();
			continue;
		}
		lap->enters++;
		{
			struct io_uring_cqe *cqe;
			int done = io_uring_wait_cqe_nr(&n->ring, &cqe, left);

			if (done < 0 && !(done == -EINTR && interruptions < interruptions_max)) {
				lap->error = -done;
				return REFUSED;
			}
			interruptions += done == -EINTR;
		}
	}
}

static inline __attribute__((always_inline)) int run(struct nops *n, uint64_t rounds, unsigned spins_max,
						     unsigned interruptions_max, struct lap *lap, const int kind,
						     const int checked)
{
	while (rounds--) {
		int done = fill(n, lap, kind, checked);

		if (!done)
			done = submit(n, lap);
		if (!done)
			done = take(n, lap, spins_max, interruptions_max, kind, checked);
		if (__builtin_expect(done, 0))
			return done;
	}
	return OK;
}

/* Rounds that take every completion. */
int bytegauge_nops_run(struct nops *n, uint64_t rounds, unsigned spins_max, unsigned interruptions_max,
		       struct lap *lap)
{
	switch (n->user_data * 2 + n->checked) {
	case USER_DATA_NONE * 2:
		return run(n, rounds, spins_max, interruptions_max, lap, USER_DATA_NONE, 0);
	case USER_DATA_NONE * 2 + 1:
		return run(n, rounds, spins_max, interruptions_max, lap, USER_DATA_NONE, 1);
	case USER_DATA_UNIQUE * 2:
		return run(n, rounds, spins_max, interruptions_max, lap, USER_DATA_UNIQUE, 0);
	case USER_DATA_UNIQUE * 2 + 1:
		return run(n, rounds, spins_max, interruptions_max, lap, USER_DATA_UNIQUE, 1);
	case USER_DATA_BOXED * 2:
		return run(n, rounds, spins_max, interruptions_max, lap, USER_DATA_BOXED, 0);
	default:
		return run(n, rounds, spins_max, interruptions_max, lap, USER_DATA_BOXED, 1);
	}
}

/* The published loop: submissions, and no completion is ever taken. */
int bytegauge_nops_only_submit(struct nops *n, uint64_t rounds, struct lap *lap)
{
	while (rounds--) {
		int done = fill(n, lap, n->user_data, n->checked);

		if (!done)
			done = submit(n, lap);
		if (done)
			return done;
	}
	return OK;
}

int bytegauge_nops_overflowed(struct nops *n)
{
	return io_uring_cq_has_overflow(&n->ring);
}

/* Takes what is left, at most so much; what overflowed is moved to the queue by whoever waits. */
uint64_t bytegauge_nops_take_rest(struct nops *n, uint64_t most, int *error)
{
	uint64_t taken = 0;

	*error = 0;
	while (taken < most) {
		struct io_uring_cqe *cqe;
		unsigned ready = io_uring_cq_ready(&n->ring);
		int done;

		io_uring_cq_advance(&n->ring, ready);
		taken += ready;
		if (ready)
			continue;
		done = io_uring_wait_cqe_nr(&n->ring, &cqe, 1);
		if (done < 0) {
			*error = -done;
			break;
		}
	}
	return taken;
}

void bytegauge_nops_misremember(struct nops *n)
{
	n->skew = n->user_data == USER_DATA_BOXED ? 8 : 1;
}

uint32_t bytegauge_nops_completion_entries(struct nops *n)
{
	return *n->ring.cq.kring_entries;
}
