/* One ring for all connections, on liburing. Modes: plain (one receive and one send at a time, a buffer a connection),
 * multishot (receives that go on, into provided buffers), zc (as multishot; sends ask the kernel not to copy). As a relay it passes bytes on to ADDRESS. Never two sends of one socket in flight: they could change places. See peer.h. */
#include "peer.h"
#include <liburing.h>

enum { ENTRIES = 1024, COMPLETIONS = 8192, GROUP = 1, BUFFERS_MIN = 16, WAITING = 1024, RELAY_READ = 64 * 1024 };
enum kind { ACCEPT, RECEIVE, SEND };

/* Received by a relay, and not yet sent on. */
struct piece {
    unsigned buffer;
    int length;
};

struct connection {
    /* For what it receives, and of a client the request. */
    char *own, *request;
    int peer, is_sending;
    size_t got;
    uint64_t began;
    /* Of a writer: notifications of zero-copy sends that are to come, and which of two buffers is next. */
    int held, next;
    struct piece *waiting;
    unsigned first, last;
};

static struct io_uring ring;
static struct io_uring_buf_ring *provided;
static char *pool, *messages;
static unsigned buffers;
static size_t buffer_size;
static struct connection connections[DESCRIPTORS];
static struct histogram latencies;
static int is_multishot, is_zero_copy, is_writer, is_reader, is_client, is_relay;

static uint64_t tag(enum kind kind, unsigned buffer, int fd) {
    return (uint64_t)kind << 56 | (uint64_t)buffer << 32 | (unsigned)fd;
}

static struct io_uring_sqe *entry(void) {
    struct io_uring_sqe *sqe;
    while (!(sqe = io_uring_get_sqe(&ring))) io_uring_submit(&ring);
    return sqe;
}

static void accept_more(int listener) {
    struct io_uring_sqe *sqe = entry();
    if (is_multishot) io_uring_prep_multishot_accept(sqe, listener, NULL, NULL, 0);
    else io_uring_prep_accept(sqe, listener, NULL, NULL, 0);
    io_uring_sqe_set_data64(sqe, tag(ACCEPT, 0, listener));
}

static void receive(int fd) {
    struct io_uring_sqe *sqe = entry();
    if (is_multishot) {
        io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = GROUP;
    } else {
        io_uring_prep_recv(sqe, fd, connections[fd].own, buffer_size, 0);
    }
    io_uring_sqe_set_data64(sqe, tag(RECEIVE, 0, fd));
}

static void offer(unsigned buffer) {
    io_uring_buf_ring_add(provided, pool + buffer * buffer_size, (unsigned)buffer_size, (unsigned short)buffer,
                          io_uring_buf_ring_mask(buffers), 0);
    io_uring_buf_ring_advance(provided, 1);
}

static void send_bytes(int fd, const char *bytes, size_t length, unsigned buffer) {
    struct io_uring_sqe *sqe = entry();
    if (is_zero_copy) io_uring_prep_send_zc(sqe, fd, bytes, length, MSG_WAITALL | MSG_NOSIGNAL, 0);
    else io_uring_prep_send(sqe, fd, bytes, length, MSG_WAITALL | MSG_NOSIGNAL);
    io_uring_sqe_set_data64(sqe, tag(SEND, buffer, fd));
}

static char *bytes_of(int fd, unsigned buffer) {
    return is_multishot ? pool + buffer * buffer_size : connections[fd].own;
}

/* Sends on the oldest piece that waits, unless a send is in flight. */
static void send_on(int fd) {
    struct connection *to = &connections[fd];
    if (to->is_sending || to->first == to->last) return;
    struct piece *piece = &to->waiting[to->first++ % WAITING];
    to->is_sending = 1;
    send_bytes(fd, bytes_of(to->peer, piece->buffer), (size_t)piece->length, piece->buffer);
}

static void write_next(int fd) {
    struct connection *of = &connections[fd];
    of->next ^= is_zero_copy;
    send_bytes(fd, messages + (size_t)of->next * asked.size, asked.size, 0);
    of->held++;
}

static void called(int fd, int length) {
    struct connection *of = &connections[fd];
    of->got += (size_t)length;
    if (of->got < asked.size) return;
    uint64_t ended = now_ns();
    recorded(&latencies, ended - of->began);
    of->began = ended;
    of->got = 0;
    counted(asked.size);
    send_bytes(fd, of->request, asked.size, 0);
}

static void received(const struct io_uring_cqe *cqe, int fd) {
    unsigned buffer = is_multishot ? cqe->flags >> IORING_CQE_BUFFER_SHIFT : 0;
    struct connection *of = &connections[fd];
    if (cqe->res == 0 || (cqe->res < 0 && cqe->res != -ENOBUFS)) {
        if (is_reader || is_client) exit(0);
        if (is_relay) shutdown(of->peer, SHUT_RDWR);
        close(fd);
        return;
    }
    /* Plain servers and relays receive again when they have sent. */
    int again = is_multishot ? !(cqe->flags & IORING_CQE_F_MORE) : is_reader || is_client;
    if (cqe->res > 0 && is_relay) {
        struct connection *to = &connections[of->peer];
        if (to->last - to->first == WAITING) die("a relay holds too much");
        to->waiting[to->last++ % WAITING] = (struct piece){buffer, cqe->res};
        send_on(of->peer);
    } else if (cqe->res > 0 && (is_reader || is_client)) {
        if (is_client) called(fd, cqe->res);
        else counted((uint64_t)cqe->res);
        if (is_multishot) offer(buffer);
    } else if (cqe->res > 0) {
        counted((uint64_t)cqe->res);
        send_bytes(fd, bytes_of(fd, buffer), (size_t)cqe->res, buffer);
    }
    if (again) receive(fd);
}

static void sent(const struct io_uring_cqe *cqe, int fd) {
    unsigned buffer = (unsigned)(io_uring_cqe_get_data64(cqe) >> 32 & 0xffffff);
    int is_over = !(cqe->flags & IORING_CQE_F_MORE), is_notice = (cqe->flags & IORING_CQE_F_NOTIF) != 0;
    struct connection *of = &connections[fd];
    if (cqe->res < 0 && !is_notice) exit(0);
    if (is_writer) {
        if (!is_notice) counted((uint64_t)cqe->res);
        of->held -= is_over;
        /* A send when the last one was taken and one of the buffers is free. */
        of->is_sending = of->is_sending && is_notice;
        if (!of->is_sending && of->held < 1 + is_zero_copy) {
            of->is_sending = 1;
            write_next(fd);
        }
        return;
    }
    if (is_relay && !is_notice) {
        of->is_sending = 0;
        send_on(fd);
    }
    if (!is_over || is_client) return;
    if (is_multishot) offer(buffer);
    else receive(is_relay ? of->peer : fd);
}

static void joined(int fd) {
    if (fd >= DESCRIPTORS) die("too many connections");
    free(connections[fd].own);
    free(connections[fd].waiting);
    connections[fd] = (struct connection){.peer = -1, .began = now_ns()};
    if (!is_multishot && !is_writer) connections[fd].own = memory(buffer_size);
    if (is_client) connections[fd].request = memory(asked.size);
    if (!is_relay) return;
    connections[fd].waiting = calloc(WAITING, sizeof(struct piece));
    if (!connections[fd].waiting) die("calloc");
}

static void welcome(int fd) {
    int one = 1;
    joined(fd);
    if (is_relay) {
        int other = connected();
        joined(other);
        connections[fd].peer = other;
        connections[other].peer = fd;
        if (!asked.is_unix) {
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        }
        receive(other);
    }
    receive(fd);
}

static void open_ring(void) {
    struct io_uring_params params = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
                                     .cq_entries = COMPLETIONS};
    if ((errno = -io_uring_queue_init_params(ENTRIES, &ring, &params)) > 0) die("io_uring_queue_init");
    if (!is_multishot) return;
    for (buffers = BUFFERS_MIN; buffers < 2 * (unsigned)asked.connections;) buffers *= 2;
    provided = aligned_alloc(4096, buffers * sizeof(struct io_uring_buf) + 4096);
    pool = memory(buffers * buffer_size);
    struct io_uring_buf_reg registered = {.ring_addr = (unsigned long)provided, .ring_entries = buffers, .bgid = GROUP};
    if ((errno = -io_uring_register_buf_ring(&ring, &registered, 0)) > 0) die("io_uring_register_buf_ring");
    io_uring_buf_ring_init(provided);
    for (unsigned i = 0; i < buffers; i++) offer(i);
}

int main(int argc, char **argv) {
    arguments(argc, argv);
    is_writer = is_role("writer"), is_reader = is_role("reader"), is_client = is_role("client"), is_relay = is_role("relay");
    is_zero_copy = is_mode("zc");
    is_multishot = !is_mode("plain") && !is_writer;
    buffer_size = is_relay ? RELAY_READ : is_reader ? asked.size : SERVER_READ;
    if (is_writer) messages = memory(2 * asked.size);
    open_ring();
    if (is_reader) {
        int fd = accepted(listening());
        joined(fd);
        receive(fd);
    } else if (is_writer || is_client) {
        int fds[DESCRIPTORS];
        for (int i = 0; i < asked.connections; i++) joined(fds[i] = connected());
        for (int i = 0; i < asked.connections; i++) {
            connections[fds[i]].is_sending = 1;
            if (is_writer) write_next(fds[i]);
            else send_bytes(fds[i], connections[fds[i]].request, asked.size, 0);
            if (is_client) receive(fds[i]);
        }
    } else {
        accept_more(listening());
    }
    for (;;) {
        io_uring_submit_and_wait(&ring, 1);
        struct io_uring_cqe *cqe;
        unsigned head, taken = 0;
        io_uring_for_each_cqe(&ring, head, cqe) {
            taken++;
            uint64_t data = io_uring_cqe_get_data64(cqe);
            int fd = (int)(data & 0xffffffff);
            if (data >> 56 == RECEIVE) received(cqe, fd);
            else if (data >> 56 == SEND) sent(cqe, fd);
            else {
                if (cqe->res >= 0) welcome(cqe->res);
                if (!(cqe->flags & IORING_CQE_F_MORE)) accept_more(fd);
            }
        }
        io_uring_cq_advance(&ring, taken);
    }
}
